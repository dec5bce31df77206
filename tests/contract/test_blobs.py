"""Every place for large content keeps the contract."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ganger.engine.blob import BlobHash, Blobs
from ganger.engine.blobs.bucket import Bucket
from ganger.engine.blobs.files import FileBlobs
from ganger.engine.blobs.memory import MemoryBlobs
from ganger.engine.blobs.s3 import S3Blobs
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.contracts.blobs import CHECKS, BlobStand, Check
from tests.servers.moto import MotoServer


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


def stand_on_s3(moto: MotoServer, largest_copy: int) -> BlobStand:
    clock, entropy, place = FakeClock(), SeededEntropy(1), moto.make_bucket()

    async def open_it() -> Blobs:
        await S3Blobs.open(place, clock, entropy)
        return S3Blobs(Bucket(place), clock, entropy, largest_copy)

    def damage(name: BlobHash, position: int) -> None:
        """Change a byte of every copy, from another thread: the checks run in an event loop."""
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, change(Bucket(place), name, position)).result()

    return BlobStand(open_it, clock, damage=damage)


async def change(bucket: Bucket, name: BlobHash, position: int) -> None:
    async for found in bucket.list(f"content/{name}/"):
        content = bytearray(await bucket.read(found.path))
        content[position] ^= 1
        await bucket.put(found.path, bytes(content))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("stand", [stand_in_memory, stand_on_files])
def test_blobs_keep_the_contract(stand: Callable[[Path], BlobStand], check: Check, tmp_path: Path) -> None:
    async def run() -> None:
        await check(stand(tmp_path))

    asyncio.run(run())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_blobs_on_s3_keep_the_contract(check: Check, moto: MotoServer) -> None:
    async def run() -> None:
        await check(stand_on_s3(moto, 5 << 30))

    asyncio.run(run())


def test_no_check_of_the_suite_is_left_out() -> None:
    from ganger.testing.contracts import blobs

    written = {name for name, value in vars(blobs).items() if asyncio.iscoroutinefunction(value) and name[0] != "_"}
    assert written - {"drink", "list_names", "collect"} == {getattr(check, "__name__", "") for check in CHECKS}
