"""Ganger's engine over a schema of a PostgreSQL server."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

import asyncpg

from bench.databases import crowd
from bench.databases.crowd import QUEUE, SPEC, check, join, run
from bench.peers.postgres_server import USER
from ganger.core.ids import QueueId
from ganger.core.task import NewTask
from ganger.engine.engine import Engine
from ganger.engine.stores.postgres import PostgresStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

_SCHEMA = "ganger_bench"
"""Not the role's own name: a schema that is called as the role is would be where the peers' tables go."""
_CHUNK = 10_000
_TIMED = 20


def name_store(socket: str, schema: str = _SCHEMA) -> str:
    """The URL of the store in that schema."""
    return f"postgresql://{USER}@/postgres?host={quote(socket)}&schema={schema}"


@asynccontextmanager
async def open_engine(socket: str, schema: str = _SCHEMA) -> AsyncIterator[Engine]:
    clock, entropy = SystemClock(), SystemEntropy()
    store = await PostgresStore.open(name_store(socket, schema), clock, entropy)
    engine = Engine(store, clock, entropy)
    try:
        yield engine
    finally:
        await engine.close()
        await store.close()


async def clear(socket: str, schema: str = _SCHEMA) -> None:
    """Take away what an earlier load has left."""
    connection = await asyncpg.connect(host=socket, user=USER, database="postgres")
    try:
        await connection.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {schema} CASCADE")
    finally:
        await connection.close()


async def fill(engine: Engine, queue: QueueId, tasks: int, chunk: int = _CHUNK) -> None:
    for first in range(0, tasks, chunk):
        await engine.submit([NewTask(queue, "function", SPEC)] * min(chunk, tasks - first))


async def _fill_anew(socket: str, tasks: int, schema: str = _SCHEMA) -> None:
    await clear(socket, schema)
    async with open_engine(socket, schema) as engine:
        queue = await engine.queues.ensure(QUEUE, by="bench")
        await fill(engine, queue.id, tasks)


def drain(_folder: Path, *, socket: str, tasks: int, batch: int) -> float:
    """Tasks a second from the first claim of a full queue to the acknowledgement of the last settle."""

    async def work() -> float:
        await clear(socket)
        async with open_engine(socket) as engine:
            worker = await join(engine, batch)
            await fill(engine, worker.claim.queues[0], tasks)
            began = time.perf_counter()
            await crowd.drain(worker)
            rate = tasks / (worker.ended - began)
            check(worker.done, tasks)
            return rate

    return run(work())


def submit_in_bulk(_folder: Path, *, socket: str, tasks: int, chunk: int) -> float:
    """Tasks submitted a second, `chunk` at a time, by one caller."""

    async def work() -> float:
        await clear(socket)
        async with open_engine(socket) as engine:
            queue = await engine.queues.ensure(QUEUE, by="bench")
            began = time.perf_counter()
            await fill(engine, queue.id, tasks, chunk)
            return tasks / (time.perf_counter() - began)

    return run(work())


def share(folder: Path, *, socket: str, nodes: int, tasks: int, batch: int) -> tuple[float, float]:
    run(_fill_anew(socket, tasks))
    return crowd.share(folder, partial(open_engine, socket), nodes=nodes, tasks=tasks, batch=batch)


def time_wakeups(folder: Path, *, socket: str, nodes: int, tasks: int) -> tuple[float, float]:
    run(_fill_anew(socket, 0))
    return crowd.time_wakeups(folder, partial(open_engine, socket), nodes=nodes, tasks=tasks)


def prepare_backlog(_folder: Path, *, socket: str, schema: str, depth: int) -> None:
    run(_fill_anew(socket, depth, schema))


def time_claims(_folder: Path, *, socket: str, schema: str, batch: int) -> float:
    """The median seconds of a claim of a batch from a prepared backlog; the tasks stay claimed."""

    async def work() -> float:
        async with open_engine(socket, schema) as engine:
            worker = await join(engine, batch, f"worker-{os.getpid()}")
            times = []
            for _ in range(_TIMED):
                began = time.perf_counter()
                claimed = await engine.claim(worker.claim)
                times.append(time.perf_counter() - began)
                check(len(claimed), batch)
            return statistics.median(times)

    return run(work())


def time_submits(_folder: Path, *, socket: str, schema: str, batch: int) -> float:
    """The median seconds of a submit of a batch to a prepared backlog."""

    async def work() -> float:
        async with open_engine(socket, schema) as engine:
            queue = await engine.queues.ensure(QUEUE, by="bench")
            times = []
            for _ in range(_TIMED):
                began = time.perf_counter()
                await fill(engine, queue.id, batch)
                times.append(time.perf_counter() - began)
            return statistics.median(times)

    return run(work())
