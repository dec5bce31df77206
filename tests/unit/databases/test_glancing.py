"""A glance at a file shows what its owner would, or nothing."""

import asyncio
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from ganger.core.errors import StoreError, StoreReplaced
from ganger.databases.sqlite import SharedFile, glance_at
from ganger.databases.sqlite.checksums import find_layer
from ganger.databases.sqlite.copying import copy_database
from ganger.databases.sqlite.examining import examine
from ganger.databases.sqlite.nameplate import read_nameplate
from ganger.databases.sqlite.place import Place
from tests.unit.databases.actor import troupe
from tests.unit.databases.counter import MIGRATIONS, Line, lines, open_counter, opened

SCHEMA = len(MIGRATIONS)


def _glance(path: Path, application: str = "counter", schema: int = SCHEMA) -> Any:
    with glance_at(path, application=application, schema=schema) as glance:
        return None if glance is None else glance.read(lines)


def _write(path: Path, *who: str) -> None:
    async def scenario() -> None:
        async with opened(path) as shared:
            for name in who:
                await shared.call("submit", Line(name, 1))

    asyncio.run(scenario())


def test_beside_an_owner_it_shows_what_was_acknowledged(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "counter.db"
        async with opened(path) as shared:
            for n in range(3):
                await shared.call("submit", Line("one", n))
                assert len(_glance(path)) == n + 1

    asyncio.run(scenario())


def test_a_file_that_nobody_owns_is_shown_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "counter.db"
    _write(path, "one", "two")
    before = path.read_bytes()

    assert _glance(path) == [("one", 1), ("two", 1)]
    assert path.read_bytes() == before


def test_what_a_dead_owner_left_in_its_log_is_shown_and_stays_there(tmp_path: Path) -> None:
    path, log = tmp_path / "counter.db", tmp_path / "counter.db-wal"

    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(path)
            await owner.ask("call", operation="submit", request=["one", 1])
            owner.kill()
            await owner.process.wait()
        left = log.read_bytes()

        assert left
        assert _glance(path) == [("one", 1)]
        assert log.read_bytes() == left

    asyncio.run(scenario())
    _write(path, "two")
    assert _glance(path) == [("one", 1), ("two", 1)]


def test_another_database_beside_the_log_of_a_dead_owner_is_left_to_an_owner(tmp_path: Path) -> None:
    """SQLite would play the log into it, and show a mixture of both."""
    path, another = tmp_path / "counter.db", tmp_path / "another.db"
    _write(another, "another")

    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(path)
            await owner.ask("call", operation="submit", request=["one", 1])
            owner.kill()
            await owner.process.wait()

    asyncio.run(scenario())
    another.rename(path)

    assert _glance(path) is None
    found = examine(path)
    assert found.log_damage is not None
    assert "another database" in found.log_damage
    with pytest.raises(StoreReplaced):
        copy_database(path, tmp_path / "copy.db")
    _write(path, "two")
    assert _glance(path) == [("another", 1), ("two", 1)]


def test_the_log_is_synced_before_anything_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        path = tmp_path / "counter.db"
        async with opened(path) as shared:
            await shared.call("submit", Line("one", 1))

            def fail(_: int) -> None:
                raise OSError(5, "the disk failed")

            monkeypatch.setattr("ganger.databases.sqlite.glancing.os.fsync", fail)
            assert _glance(path) is None
            monkeypatch.undo()

    asyncio.run(scenario())


def test_a_file_whose_disk_had_failed_is_left_to_an_owner(tmp_path: Path) -> None:
    path = tmp_path / "counter.db"
    _write(path, "one")
    place = Place.of(path)
    plate = read_nameplate(place)
    assert plate is not None
    place.lock.write_bytes(msgspec.json.encode(msgspec.structs.replace(plate, sound=False)))

    assert _glance(path) is None


def test_a_file_without_a_nameplate_is_left_to_an_owner(tmp_path: Path) -> None:
    path = tmp_path / "counter.db"
    _write(path, "one")
    Place.of(path).lock.write_bytes(b"")

    assert _glance(path) is None


def test_another_version_and_another_program_are_left_to_an_owner(tmp_path: Path) -> None:
    path = tmp_path / "counter.db"
    _write(path, "one")

    assert _glance(path, schema=SCHEMA + 1) is None
    assert _glance(path, application="other") is None
    connection = apsw.Connection(str(path), vfs=find_layer())
    connection.execute("UPDATE ownership SET minimum = 99")
    connection.close()
    assert _glance(path) is None


def test_nothing_is_made_where_nothing_is(tmp_path: Path) -> None:
    assert _glance(tmp_path / "none.db") is None
    assert _glance(tmp_path / "no" / "folder.db") is None
    assert not list(tmp_path.iterdir())


def test_a_glance_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "counter.db"
    _write(path, "one")
    with glance_at(path, application="counter", schema=SCHEMA) as glance:
        assert glance is not None
        with pytest.raises(StoreError):
            glance.read(lambda connection: connection.execute("DELETE FROM line"))


def test_an_owner_that_comes_while_somebody_glances_is_not_hindered(tmp_path: Path) -> None:
    path = tmp_path / "counter.db"
    _write(path, "one")

    async def scenario() -> None:
        with glance_at(path, application="counter", schema=SCHEMA) as glance:
            assert glance is not None
            shared: SharedFile = await open_counter(path)
            await shared.call("submit", Line("two", 1))
            assert glance.read(lines) == [("one", 1)]
            await shared.close()
        assert _glance(path) == [("one", 1), ("two", 1)]

    asyncio.run(scenario())
