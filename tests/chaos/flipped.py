"""Processes that leave a store behind as a killed machine would: pages, a log, bags with letters, large data."""

import asyncio
import sys
from pathlib import Path

from ganger.core.task import NewTask
from ganger.databases.sqlite import Rank
from ganger.engine.blobs.files import FileBlobs
from ganger.engine.engine import Engine
from ganger.engine.stores.sqlite import SqliteStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy


def make_tasks(queue: int, what: str, many: int) -> list[NewTask]:
    return [NewTask(queue, "payload", f"{what} {n} ".encode() * 20, description=f"{what} {n}") for n in range(many)]  # type: ignore[arg-type]


async def open_all(database: Path, rank: Rank) -> tuple[SqliteStore, Engine]:
    clock, entropy = SystemClock(), SystemEntropy()
    store = await SqliteStore.open(database, clock, entropy, rank=rank)
    blobs = await FileBlobs.open(database.with_name(f"{database.name}-blobs"), clock, entropy)
    return store, Engine(store, clock, entropy, blobs=blobs)


async def own(database: Path) -> None:
    """Leave pages behind, checkpointed; then a log; then wait to be killed."""
    store, engine = await open_all(database, Rank.SERVER)
    queue = await engine.queues.ensure("q", by="test")
    first = (await engine.submit(make_tasks(queue.id, "paged", 150))).ids[0]
    await engine.put_data(first, "film", bytes(range(256)) * 2_400)
    await engine.close()
    await store.close()
    store, engine = await open_all(database, Rank.SERVER)
    for task in make_tasks(queue.id, "logged", 40):
        await engine.submit([task])
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def post(database: Path, many: int) -> None:
    """Write letters, the last of them while the owner is stopped; then wait to be killed."""
    _, engine = await open_all(database, Rank.CLIENT)
    queue = await engine.queues.ensure("q", by="test")
    for task in make_tasks(queue.id, "asked", 10):
        await asyncio.to_thread(engine.post_now, [task])
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    for task in make_tasks(queue.id, "posted", many):
        await asyncio.to_thread(engine.post_now, [task])
    print("posted", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    role, path = sys.argv[1], Path(sys.argv[2])
    asyncio.run(own(path) if role == "own" else post(path, int(sys.argv[3])))
