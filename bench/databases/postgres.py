"""Ganger's engine over a schema of a PostgreSQL server, with no-op workers in the process or in processes beside it."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import asyncpg
import uvloop

from bench.field import WARM, summarise
from bench.ganger_engine import Worker
from bench.peers.postgres_server import USER
from bench.producers import Gate, Producers
from bench.tally import Bell, ring
from ganger.core.ids import QueueId
from ganger.core.node import Registration
from ganger.core.task import NewTask
from ganger.engine.engine import Engine
from ganger.engine.stores.postgres import PostgresStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

T = TypeVar("T")

SLOTS = 4
"""Batches in work at once, as a node has slots: while one is being committed, the next is run."""

_SPEC = b'{"function":"package.module:function","args":[]}'
_QUEUE = "bench"
_SCHEMA = "ganger_bench"
"""Not the role's own name: a schema that is called as the role is would be where the peers' tables go."""
_CHUNK = 10_000
_TIMED = 20
_PAUSE = 0.01
_LEASE = 600_000


@asynccontextmanager
async def open_engine(socket: str, schema: str = _SCHEMA) -> AsyncIterator[Engine]:
    clock, entropy = SystemClock(), SystemEntropy()
    url = f"postgresql://{USER}@/postgres?host={quote(socket)}&schema={schema}"
    store = await PostgresStore.open(url, clock, entropy)
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
        await engine.submit([NewTask(queue, "function", _SPEC)] * min(chunk, tasks - first))


async def join(engine: Engine, batch: int, name: str = "worker", lease: int = _LEASE) -> Worker:
    """A worker whose node lives for as long as it says: nobody beats for it."""
    queue = await engine.queues.ensure(_QUEUE, by="bench")
    node = await engine.nodes.register(Registration(name, name, lease=lease))
    return Worker(engine, node.id, queue.id, batch)


def run(work: Coroutine[Any, Any, T]) -> T:
    result: T = uvloop.run(work)
    return result


def drain(_folder: Path, *, socket: str, tasks: int, batch: int) -> float:
    """Tasks a second from the first claim of a full queue to the acknowledgement of the last settle."""

    async def work() -> float:
        await clear(socket)
        async with open_engine(socket) as engine:
            worker = await join(engine, batch)
            await fill(engine, worker.claim.queues[0], tasks)
            began = time.perf_counter()
            await _drain(worker)
            rate = tasks / (worker.ended - began)
            _check(worker.done, tasks)
            return rate

    return run(work())


async def _drain(worker: Worker) -> None:
    await asyncio.gather(*(worker.drain() for _ in range(SLOTS)))


def _check(done: int, tasks: int) -> None:
    if done != tasks:
        raise RuntimeError(f"{done} of {tasks} tasks were settled")


def submit_in_bulk(_folder: Path, *, socket: str, tasks: int, chunk: int) -> float:
    """Tasks submitted a second, `chunk` at a time, by one caller."""

    async def work() -> float:
        await clear(socket)
        async with open_engine(socket) as engine:
            queue = await engine.queues.ensure(_QUEUE, by="bench")
            began = time.perf_counter()
            await fill(engine, queue.id, tasks, chunk)
            return tasks / (time.perf_counter() - began)

    return run(work())


def share(folder: Path, *, socket: str, nodes: int, tasks: int, batch: int) -> tuple[float, float]:
    """Tasks a second that so many nodes settle together, and the least share of a node over an even one."""
    run(_fill_anew(socket, tasks))
    crowd = Producers(nodes, _take_part, folder, socket, batch)
    crowd.start()
    began = crowd.release()
    rate = tasks / (crowd.finish() - began)
    shares = [int(path.read_text()) for path in folder.glob("share-*")]
    _check(sum(shares), tasks)
    return rate, min(shares) * nodes / tasks


async def _fill_anew(socket: str, tasks: int) -> None:
    await clear(socket)
    async with open_engine(socket) as engine:
        queue = await engine.queues.ensure(_QUEUE, by="bench")
        await fill(engine, queue.id, tasks)


def _take_part(gate: Gate, number: int, folder: Path, socket: str, batch: int) -> None:
    async def work() -> None:
        async with open_engine(socket) as engine:
            worker = await join(engine, batch, f"node-{number}")
            gate()
            await _drain(worker)
            (folder / f"share-{number}").write_text(str(worker.done))

    run(work())


def time_wakeups(folder: Path, *, socket: str, nodes: int, tasks: int) -> tuple[float, float]:
    """Milliseconds from the call that submits to the claim in one of so many idle processes, p50 and p99."""
    run(_fill_anew(socket, 0))
    bell = Bell(folder)
    crowd = Producers(nodes, _listen, folder, socket)
    crowd.start()
    crowd.release()
    return summarise(run(_submit_each(socket, partial(bell.wait, lambda: True), tasks)))


async def _submit_each(socket: str, wait: Callable[[], float], tasks: int) -> list[float]:
    """One at a time, with a pause, so that all have gone back to waiting; the seconds until each was claimed."""
    times = []
    async with open_engine(socket) as engine:
        queue = await engine.queues.ensure(_QUEUE, by="bench")
        for _ in range(WARM + tasks):
            await asyncio.sleep(_PAUSE)
            asked = time.perf_counter()
            await engine.submit([NewTask(queue.id, "function", _SPEC)])
            times.append(await asyncio.to_thread(wait) - asked)
    return times[WARM:]


def _listen(gate: Gate, number: int, folder: Path, socket: str) -> None:
    """Claim whatever comes, until the load ends and this process with it."""

    async def work() -> None:
        async with open_engine(socket) as engine:
            worker = await join(engine, 1, f"node-{number}")
            gate()
            while True:
                claimed = await engine.wait_claim(worker.claim, 1.0)
                if claimed:
                    ring(folder)
                    await worker.turn(claimed, again=False)

    run(work())


def prepare_backlog(_folder: Path, *, socket: str, schema: str, depth: int) -> None:
    async def work() -> None:
        await clear(socket, schema)
        async with open_engine(socket, schema) as engine:
            queue = await engine.queues.ensure(_QUEUE, by="bench")
            await fill(engine, queue.id, depth)

    run(work())


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
                _check(len(claimed), batch)
            return statistics.median(times)

    return run(work())


def time_submits(_folder: Path, *, socket: str, schema: str, batch: int) -> float:
    """The median seconds of a submit of a batch to a prepared backlog."""

    async def work() -> float:
        async with open_engine(socket, schema) as engine:
            queue = await engine.queues.ensure(_QUEUE, by="bench")
            times = []
            for _ in range(_TIMED):
                began = time.perf_counter()
                await fill(engine, queue.id, batch)
                times.append(time.perf_counter() - began)
            return statistics.median(times)

    return run(work())
