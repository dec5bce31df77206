"""What must be on the disk besides the pages: the name of a new file, and the word that its disk has failed."""

import asyncio
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ganger.core.errors import StoreBroken
from ganger.databases.sqlite.nameplate import Nameplate
from ganger.testing.vfs import Fault, FaultVfs
from tests.unit.databases.counter import Line, open_counter, opened

NUMBERS = itertools.count()


@pytest.fixture
def vfs() -> Iterator[FaultVfs]:
    found = FaultVfs(f"opening-{next(NUMBERS)}")
    yield found
    found.unregister()


def is_sound(database: Path) -> bool:
    return msgspec.json.decode(Path(f"{database}-owner").read_bytes(), type=Nameplate).sound


def test_the_folder_of_a_new_file_is_synced_before_the_file_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    sync = os.fsync

    def see_sync(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    async def scenario() -> None:
        shared = await open_counter(tmp_path / "c.db")
        served = tmp_path in synced
        await shared.close()
        assert served

    monkeypatch.setattr(os, "fsync", see_sync)
    asyncio.run(scenario())


def test_a_disk_that_failed_is_on_the_nameplate_until_the_file_was_checked(tmp_path: Path, vfs: FaultVfs) -> None:
    path = tmp_path / "c.db"

    async def scenario() -> None:
        async with opened(path, vfs=vfs.name) as shared:
            assert is_sound(path)
            vfs.arm(Fault(call="xSync", suffix="-wal"))
            with pytest.raises(StoreBroken):
                await shared.call("submit", Line("ada", 1))
            assert not is_sound(path)
            assert await shared.call("submit", Line("ada", 2)) == 1
            assert is_sound(path)

    asyncio.run(scenario())
