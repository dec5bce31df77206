"""What lies in a bag is run: so a bag that somebody else may have put there is left alone, and told."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ganger.core.errors import StoreBroken
from ganger.databases.sqlite.bag import Bag, read_bag
from ganger.databases.sqlite.copying import copy_with_bags
from ganger.databases.sqlite.examining import examine
from ganger.databases.sqlite.place import Place
from ganger.databases.sqlite.seat import take_seat
from tests.unit.databases.counter import lines, opened
from tests.unit.databases.test_letters import CLIENT, letter, put

NOBODY = 65_534


class Heard:
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def event(self, name: str, **fields: object) -> None:
        self.told.append((name, str(fields.get("path"))))


def become_link(bag: Path) -> None:
    bag.rename(bag.with_name("elsewhere"))
    bag.symlink_to("elsewhere")


def become_pipe(bag: Path) -> None:
    bag.unlink()
    os.mkfifo(bag, 0o600)


def become_folder(bag: Path) -> None:
    bag.unlink()
    bag.mkdir()


def become_writable_for_a_group(bag: Path) -> None:
    bag.chmod(0o620)


def become_writable_for_all(bag: Path) -> None:
    bag.chmod(0o602)


STRANGE = [become_link, become_pipe, become_folder, become_writable_for_a_group, become_writable_for_all]


@pytest.mark.parametrize("become", STRANGE)
def test_a_bag_that_another_may_have_written_is_not_run_and_is_told(
    tmp_path: Path, become: Callable[[Path], None]
) -> None:
    place, heard = Place.of(tmp_path / "c.db"), Heard()

    async def scenario() -> None:
        async with opened(tmp_path / "c.db"):
            pass
        bag = leave_bag(place)
        become(bag)
        async with opened(tmp_path / "c.db", telemetry=heard) as owner:
            assert await owner.read(lines) == []
        assert heard.told == [("bag_refused", str(bag))]
        assert list(examine(place.database).bags) == [bag]
        assert copy_with_bags(place.database, tmp_path / "copy.db")[1] == [bag]

    asyncio.run(scenario())
    assert not list(tmp_path.glob("copy.db-bag-*"))


def leave_bag(place: Place) -> Path:
    bag = Bag(place, CLIENT)
    put(bag, letter(1))
    bag.close(remove=False)
    (path,) = place.bags()
    return path


def test_a_bag_of_another_user_is_refused(tmp_path: Path) -> None:
    place = Place.of(tmp_path / "c.db")
    place.database.touch()
    bag = leave_bag(place)
    assert read_bag(bag, place.database).calls

    database = place.database
    if os.geteuid() == 0:
        os.chown(bag, NOBODY, NOBODY)
    else:
        database = Path("/etc/passwd")

    with pytest.raises(StoreBroken, match="belongs to user"):
        read_bag(bag, database)


def test_a_file_that_only_looks_like_a_bag_hinders_nobody(tmp_path: Path) -> None:
    heard = Heard()

    async def scenario() -> None:
        (tmp_path / "c.db-bag-of tricks").write_bytes(b"boo")
        async with opened(tmp_path / "c.db", telemetry=heard) as owner:
            assert await owner.read(lines) == []

    asyncio.run(scenario())
    assert heard.told == [("bag_refused", str(tmp_path / "c.db-bag-of tricks"))]


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    place = Place.of(tmp_path / "c.db")
    place.lock.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreBroken):
        take_seat(place)
    assert not (tmp_path / "elsewhere").exists()
