"""A real small disk that is full to its last byte: new work is refused, results are recorded, service returns."""

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from ganger.core.errors import StoreFull
from ganger.core.ids import NodeId, QueueId
from ganger.core.node import Registration
from ganger.core.state import Status, move
from ganger.core.task import Claimed, NewTask
from ganger.engine.store import Claim, Configure, Exchange, NodeChange, QueueChange, Submission
from ganger.engine.stores.sqlite import SqliteStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from tests.chaos.harness import find_unsound, look_into
from tests.chaos.harness_disk import BACK_WITHIN

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

MEBIBYTE: Final = 1 << 20
SIZE: Final = 64 * MEBIBYTE
LEASED: Final = 1_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 64 MiB, gone after the test."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode:
        why = f"A SMALL DISK CANNOT BE MOUNTED, SO A FULL ONE IS NOT TESTED: {mounted.stderr.decode().strip()}"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def grow(folder: Path) -> None:
    subprocess.run(["mount", "-o", f"remount,size={4 * SIZE}", str(folder)], check=True)


def free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def fill(path: Path, leave: int) -> None:
    """Write a file until that much is free; 0: to the last byte."""
    with open(path, "wb", buffering=0) as file:
        while free(path.parent) > leave:
            file.write(bytes(min(65_536, free(path.parent) - leave)))


@dataclass
class Shop:
    store: SqliteStore
    queue: QueueId
    node: NodeId

    async def submit(self, key: str, size: int = 100) -> None:
        await self.store.submit(Submission((NewTask(self.queue, "payload", b"s" * size, key=key),)))

    async def is_refused(self, key: str, size: int = 100) -> bool:
        try:
            await self.submit(key, size)
        except StoreFull:
            return True
        return False

    async def lease(self, count: int) -> list[Claimed]:
        await self.store.submit(Submission(tuple(NewTask(self.queue, "payload") for _ in range(count))))
        done = await self.store.exchange(Exchange(claim=Claim(self.node, (self.queue,), count, start=True)))
        return done.claimed

    async def settle(self, one: Claimed) -> None:
        moved = move(one.id, "succeed", one.fence)._replace(result=b"r" * 200)
        done = await self.store.exchange(Exchange((moved,)))
        assert done.refused == []


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Shop]:
    store = await SqliteStore.open(folder / "store.db", SystemClock(), SystemEntropy())
    made = await store.configure(Configure(queue=QueueChange(name="work")))
    said = Registration("worker", "secret", lease=600_000)
    node = await store.configure(Configure(node=NodeChange(register=said)))
    assert made.queue is not None
    assert node.node is not None
    try:
        yield Shop(store, made.queue.id, node.node.id)
    finally:
        await store.close()


async def until_refused(shop: Shop) -> None:
    """New work is refused before the last byte is gone, as soon as the store has looked."""
    deadline = time.monotonic() + BACK_WITHIN
    number = 0
    while not await shop.is_refused(f"until{number}"):
        assert time.monotonic() < deadline
        number += 1
        await asyncio.sleep(0.01)


async def until_back(shop: Shop) -> float:
    began = time.monotonic()
    while await shop.is_refused("back"):
        assert time.monotonic() - began < BACK_WITHIN
        await asyncio.sleep(0.01)
    return time.monotonic() - began


def check(folder: Path, settled: list[Claimed]) -> None:
    with look_into(folder / "store.db") as connection:
        assert find_unsound(connection) == []
        results = connection.execute("SELECT task FROM data WHERE key = 'result' AND size = 200").fetchall()
        ended = connection.execute("SELECT id FROM task WHERE status = ?", (Status.SUCCEEDED,)).fetchall()
    assert {one.id for one in settled} == {number for (number,) in results} == {number for (number,) in ended}


def test_while_others_fill_the_disk_every_result_is_recorded_and_new_work_refused(disk: Path) -> None:
    async def scenario() -> list[Claimed]:
        async with opened(disk) as shop:
            claimed = await shop.lease(LEASED)
            fill(disk / "nearly", 7 * MEBIBYTE)
            await until_refused(shop)
            fill(disk / "wholly", 0)
            for number, one in enumerate(claimed):
                await shop.settle(one)
                assert number % 100 or await shop.is_refused(f"no{number}")
            (disk / "nearly").unlink()
            await until_back(shop)
        return claimed

    check(disk, asyncio.run(scenario()))


def test_when_new_work_itself_fills_the_disk_results_are_still_recorded(disk: Path) -> None:
    async def scenario() -> list[Claimed]:
        async with opened(disk) as shop:
            claimed = await shop.lease(100)
            batch = 0
            while not await shop.is_refused(f"more{batch}", 60_000):
                batch += 1
            for one in claimed:
                await shop.settle(one)
            await asyncio.to_thread(grow, disk)
            await until_back(shop)
        return claimed

    check(disk, asyncio.run(scenario()))
