"""Nodes on one database server, each a process of its own, with no-op workers: handed how to open the engine there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from bench.field import WARM, summarise
from bench.ganger_engine import Worker
from bench.producers import Gate, Producers
from bench.tally import Bell, ring
from ganger.core.node import Registration
from ganger.core.task import NewTask
from ganger.engine.engine import Engine

T = TypeVar("T")

SLOTS = 4
"""Batches in work at once, as a node has slots: while one is being committed, the next is run."""
QUEUE = "bench"
SPEC = b'{"function":"package.module:function","args":[]}'

_PAUSE = 0.01
_LEASE = 600_000

Opening = Callable[[], AbstractAsyncContextManager[Engine]]
"""How the engine is opened; it travels to processes that are started later."""


def run(work: Coroutine[Any, Any, T]) -> T:
    result: T = uvloop.run(work)
    return result


async def join(engine: Engine, batch: int, name: str = "worker", lease: int = _LEASE) -> Worker:
    """A worker whose node lives for as long as it says: nobody beats for it."""
    queue = await engine.queues.ensure(QUEUE, by="bench")
    node = await engine.nodes.register(Registration(name, name, lease=lease))
    return Worker(engine, node.id, queue.id, batch)


async def drain(worker: Worker) -> None:
    await asyncio.gather(*(worker.drain() for _ in range(SLOTS)))


def check(done: int, tasks: int) -> None:
    if done != tasks:
        raise RuntimeError(f"{done} of {tasks} tasks were settled")


def share(folder: Path, opening: Opening, *, nodes: int, tasks: int, batch: int) -> tuple[float, float]:
    """Tasks a second of a full queue that so many nodes settle together, and the least share of a node over an even
    one."""
    crowd = Producers(nodes, _take_part, folder, opening, batch)
    crowd.start()
    began = crowd.release()
    rate = tasks / (crowd.finish() - began)
    shares = [int(path.read_text()) for path in folder.glob("share-*")]
    check(sum(shares), tasks)
    return rate, min(shares) * nodes / tasks


def _take_part(gate: Gate, number: int, folder: Path, opening: Opening, batch: int) -> None:
    async def work() -> None:
        async with opening() as engine:
            worker = await join(engine, batch, f"node-{number}")
            gate()
            await drain(worker)
            (folder / f"share-{number}").write_text(str(worker.done))

    run(work())


def time_wakeups(folder: Path, opening: Opening, *, nodes: int, tasks: int) -> tuple[float, float]:
    """Milliseconds from the call that submits to the claim in one of so many idle processes, p50 and p99."""
    bell = Bell(folder)
    crowd = Producers(nodes, _listen, folder, opening)
    crowd.start()
    crowd.release()
    return summarise(run(_submit_each(opening, partial(bell.wait, lambda: True), tasks)))


async def _submit_each(opening: Opening, wait: Callable[[], float], tasks: int) -> list[float]:
    """One at a time, with a pause, so that all have gone back to waiting; the seconds until each was claimed."""
    times = []
    async with opening() as engine:
        queue = await engine.queues.ensure(QUEUE, by="bench")
        for _ in range(WARM + tasks):
            await asyncio.sleep(_PAUSE)
            asked = time.perf_counter()
            await engine.submit([NewTask(queue.id, "function", SPEC)])
            times.append(await asyncio.to_thread(wait) - asked)
    return times[WARM:]


def _listen(gate: Gate, number: int, folder: Path, opening: Opening) -> None:
    """Claim whatever comes, until the load ends and this process with it."""

    async def work() -> None:
        async with opening() as engine:
            worker = await join(engine, 1, f"node-{number}")
            gate()
            while True:
                claimed = await engine.wait_claim(worker.claim, 1.0)
                if claimed:
                    ring(folder)
                    await worker.turn(claimed, again=False)

    run(work())
