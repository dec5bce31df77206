"""Every place for large content keeps the contract."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from ganger.engine.blob import BlobHash, Blobs
from ganger.engine.blobs.files import FileBlobs
from ganger.engine.blobs.memory import MemoryBlobs
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.contracts.blobs import CHECKS, BlobStand, Check


def stand_in_memory(folder: Path) -> BlobStand:
    clock = FakeClock()

    async def open_it() -> Blobs:
        return MemoryBlobs(clock)

    return BlobStand(open_it, clock, durable=False)


def stand_on_files(folder: Path) -> BlobStand:
    clock, entropy = FakeClock(), SeededEntropy(1)

    async def open_it() -> Blobs:
        return await FileBlobs.open(folder / "blobs", clock, entropy)

    def damage(name: BlobHash, position: int) -> None:
        with (folder / "blobs" / "objects" / name[:2] / name[2:]).open("r+b") as file:
            file.seek(position)
            byte = file.read(1)[0]
            file.seek(position)
            file.write(bytes([byte ^ 1]))

    return BlobStand(open_it, clock, damage=damage)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("stand", [stand_in_memory, stand_on_files])
def test_blobs_keep_the_contract(stand: Callable[[Path], BlobStand], check: Check, tmp_path: Path) -> None:
    async def run() -> None:
        await check(stand(tmp_path))

    asyncio.run(run())


def test_no_check_of_the_suite_is_left_out() -> None:
    from ganger.testing.contracts import blobs

    written = {name for name, value in vars(blobs).items() if asyncio.iscoroutinefunction(value) and name[0] != "_"}
    assert written - {"drink", "list_names", "collect"} == {getattr(check, "__name__", "") for check in CHECKS}
