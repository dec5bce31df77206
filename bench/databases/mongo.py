"""Ganger's engine over a database of a MongoDB server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from bench.databases import crowd
from bench.databases.crowd import QUEUE, check, join, run
from ganger.core.queue import Policy
from ganger.core.task import NewTask
from ganger.engine.engine import Engine
from ganger.engine.stores.mongo import MongoStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

_DATABASE = "ganger_bench"
_PLUGIN = "Bench"
_CHUNK = 1_000


@asynccontextmanager
async def open_engine(server: str) -> AsyncIterator[Engine]:
    clock, entropy = SystemClock(), SystemEntropy()
    store = await MongoStore.open(f"{server}/{_DATABASE}", clock, entropy)
    engine = Engine(store, clock, entropy)
    try:
        yield engine
    finally:
        await engine.close()
        await store.close()


def clear(server: str) -> None:
    """Take away what an earlier load has left."""
    with MongoClient[dict[str, Any]](server) as client:
        client.drop_database(_DATABASE)


async def fill(engine: Engine, tasks: int, *, shared: bool = False) -> None:
    """A queue of so many tasks; a shared one is taken from as Disbatch's own nodes do it."""
    policy = Policy(plugin=_PLUGIN) if shared else Policy()
    queue = await engine.queues.create(QUEUE, policy, by="bench")
    kind, spec = (f"plugin:{_PLUGIN}", b'{"params":{}}') if shared else ("function", b'{"function":"m:f","args":[]}')
    for first in range(0, tasks, _CHUNK):
        await engine.submit([NewTask(queue.id, kind, spec)] * min(_CHUNK, tasks - first))


async def _fill_anew(server: str, tasks: int) -> None:
    clear(server)
    async with open_engine(server) as engine:
        await fill(engine, tasks)


def drain(_folder: Path, *, server: str, tasks: int, batch: int, shared: bool = False) -> float:
    """Tasks a second from the first claim of a full queue to the acknowledgement of the last settle."""

    async def work() -> float:
        async with open_engine(server) as engine:
            await fill(engine, tasks, shared=shared)
            worker = await join(engine, batch)
            began = time.perf_counter()
            await crowd.drain(worker)
            check(worker.done, tasks)
            return tasks / (worker.ended - began)

    clear(server)
    return run(work())


def share(folder: Path, *, server: str, nodes: int, tasks: int, batch: int) -> tuple[float, float]:
    run(_fill_anew(server, tasks))
    return crowd.share(folder, partial(open_engine, server), nodes=nodes, tasks=tasks, batch=batch)


def time_wakeups(folder: Path, *, server: str, nodes: int, tasks: int) -> tuple[float, float]:
    run(_fill_anew(server, 0))
    return crowd.time_wakeups(folder, partial(open_engine, server), nodes=nodes, tasks=tasks)
