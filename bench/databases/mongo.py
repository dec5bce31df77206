"""Ganger's engine over a database of a MongoDB server, with no-op workers in the process or in processes beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import uvloop
from pymongo import MongoClient

from bench.field import WARM, summarise
from bench.ganger_engine import Worker
from bench.producers import Gate, Producers
from bench.tally import Bell, ring
from ganger.core.ids import QueueId
from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.task import NewTask
from ganger.engine.engine import Engine
from ganger.engine.stores.mongo import MongoStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

T = TypeVar("T")
SLOTS = 4
"""Batches in work at once, as a node has slots: while one is being committed, the next is run."""

_QUEUE = "bench"
_DATABASE = "ganger_bench"
_PLUGIN = "Bench"
_CHUNK = 1_000
_PAUSE = 0.01
_LEASE = 600_000


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


async def fill(engine: Engine, tasks: int, *, shared: bool = False) -> QueueId:
    """A queue of so many tasks; a shared one is taken from as Disbatch's own nodes do it."""
    policy = Policy(plugin=_PLUGIN) if shared else Policy()
    queue = await engine.queues.create(_QUEUE, policy, by="bench")
    kind, spec = (f"plugin:{_PLUGIN}", b'{"params":{}}') if shared else ("function", b'{"function":"m:f","args":[]}')
    for first in range(0, tasks, _CHUNK):
        await engine.submit([NewTask(queue.id, kind, spec)] * min(_CHUNK, tasks - first))
    return queue.id


async def join(engine: Engine, batch: int, name: str = "worker") -> Worker:
    queue = await engine.queues.named(_QUEUE)
    node = await engine.nodes.register(Registration(name, name, lease=_LEASE))
    return Worker(engine, node.id, queue.id, batch)


def run(work: Coroutine[Any, Any, T]) -> T:
    result: T = uvloop.run(work)
    return result


def drain(_folder: Path, *, server: str, tasks: int, batch: int, shared: bool = False) -> float:
    """Tasks a second from the first claim of a full queue to the acknowledgement of the last settle."""

    async def work() -> float:
        async with open_engine(server) as engine:
            await fill(engine, tasks, shared=shared)
            worker = await join(engine, batch)
            began = time.perf_counter()
            await _drain(worker)
            _check(worker.done, tasks)
            return tasks / (worker.ended - began)

    clear(server)
    return run(work())


async def _drain(worker: Worker) -> None:
    await asyncio.gather(*(worker.drain() for _ in range(SLOTS)))


def _check(done: int, tasks: int) -> None:
    if done != tasks:
        raise RuntimeError(f"{done} of {tasks} tasks were settled")


def share(folder: Path, *, server: str, nodes: int, tasks: int, batch: int) -> tuple[float, float]:
    """Tasks a second that so many nodes settle together, and the least share of a node over an even one."""
    run(_fill_anew(server, tasks))
    crowd = Producers(nodes, _take_part, folder, server, batch)
    crowd.start()
    began = crowd.release()
    rate = tasks / (crowd.finish() - began)
    shares = [int(path.read_text()) for path in folder.glob("share-*")]
    _check(sum(shares), tasks)
    return rate, min(shares) * nodes / tasks


async def _fill_anew(server: str, tasks: int) -> None:
    clear(server)
    async with open_engine(server) as engine:
        await fill(engine, tasks)


def _take_part(gate: Gate, number: int, folder: Path, server: str, batch: int) -> None:
    async def work() -> None:
        async with open_engine(server) as engine:
            worker = await join(engine, batch, f"node-{number}")
            gate()
            await _drain(worker)
            (folder / f"share-{number}").write_text(str(worker.done))

    run(work())


def time_wakeups(folder: Path, *, server: str, nodes: int, tasks: int) -> tuple[float, float]:
    """Milliseconds from the call that submits to the claim in one of so many idle processes, p50 and p99."""
    run(_fill_anew(server, 0))
    bell = Bell(folder)
    crowd = Producers(nodes, _listen, folder, server)
    crowd.start()
    crowd.release()
    return summarise(run(_submit_each(server, partial(bell.wait, lambda: True), tasks)))


async def _submit_each(server: str, wait: Callable[[], float], tasks: int) -> list[float]:
    """One at a time, with a pause, so that all have gone back to waiting; the seconds until each was claimed."""
    times = []
    async with open_engine(server) as engine:
        queue = await engine.queues.named(_QUEUE)
        for _ in range(WARM + tasks):
            await asyncio.sleep(_PAUSE)
            asked = time.perf_counter()
            await engine.submit([NewTask(queue.id, "function", b'{"function":"m:f","args":[]}')])
            times.append(await asyncio.to_thread(wait) - asked)
    return times[WARM:]


def _listen(gate: Gate, number: int, folder: Path, server: str) -> None:
    """Claim whatever comes, until the load ends and this process with it."""

    async def work() -> None:
        async with open_engine(server) as engine:
            worker = await join(engine, 1, f"node-{number}")
            gate()
            while True:
                claimed = await engine.wait_claim(worker.claim, 1.0)
                if claimed:
                    ring(folder)
                    await worker.turn(claimed, again=False)

    run(work())
