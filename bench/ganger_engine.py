"""Ganger's engine over one SQLite file, with a no-op worker in the process, as the engine suite asks for it."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from bench.producers import Gate, Producers
from bench.subject import Backlog, GraphShape
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Outcome, Succeed
from ganger.core.queue import Policy, with_retry
from ganger.core.retry import Fixed, Retry
from ganger.core.state import move
from ganger.core.task import Claimed, NewTask
from ganger.databases.sqlite import Rank
from ganger.engine.engine import Engine
from ganger.engine.store import Claim, Exchange, Tend
from ganger.engine.stores.sqlite import SqliteStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

_SPEC = b'{"function":"package.module:function","args":[]}'
_DONE = Succeed()
_QUEUE = "bench"
_PLAIN_AHEAD = 10_000
_TIMED = 20
_LOAD_CHUNK = 10_000
_CHAIN = 2_000
_SLOTS = 4
"""Batches in work at once, as a node has slots: while one is being committed, the next is run."""


@asynccontextmanager
async def _open(folder: Path, rank: Rank = Rank.CLIENT) -> AsyncIterator[Engine]:
    clock, entropy = SystemClock(), SystemEntropy()
    store = await SqliteStore.open(folder / "ganger.db", clock, entropy, rank=rank)
    engine = Engine(store, clock, entropy)
    try:
        yield engine
    finally:
        await engine.close()
        await store.close()


class Worker:
    """A no-op worker: settles what it ran and claims the next in one step."""

    def __init__(self, engine: Engine, node: NodeId, queue: QueueId, batch: int) -> None:
        self.engine = engine
        self.claim = Claim(node, (queue,), batch, start=True)
        self.done = 0
        self.ended = 0.0
        """When the last batch was settled."""

    async def drain(self) -> None:
        """Until nothing is ready."""
        claimed: Sequence[Claimed] = await self.engine.claim(self.claim)
        while claimed:
            claimed = await self.turn(claimed)

    async def run(self, tasks: int) -> None:
        """Until so many are settled. When the queue is nearly empty it stands in line instead of asking again."""
        while self.done < tasks:
            claimed: Sequence[Claimed] = await self.engine.wait_claim(self.claim, 0.1)
            while claimed:
                claimed = await self.turn(claimed, again=2 * len(claimed) > self.claim.most)

    async def turn(self, claimed: Sequence[Claimed], *, again: bool = True) -> Sequence[Claimed]:
        ran: list[tuple[Claimed, Outcome]] = [(one, _DONE) for one in claimed]
        settled = await self.engine.settle(ran, self.claim if again else None)
        if settled.refused:
            raise RuntimeError(f"{len(settled.refused)} settles were refused")
        self.done += len(claimed)
        self.ended = time.perf_counter()
        return settled.claimed


async def _worker(engine: Engine, batch: int, name: str = "worker") -> Worker:
    queue = await engine.queues.ensure(_QUEUE, by="bench")
    node = await engine.nodes.register(Registration(name, name, lease=600_000))
    return Worker(engine, node.id, queue.id, batch)


def _check(done: int, tasks: int) -> None:
    if done != tasks:
        raise RuntimeError(f"{done} of {tasks} tasks were settled")


def _plain(queue: QueueId, count: int) -> list[NewTask]:
    return [NewTask(queue, "function", _SPEC) for _ in range(count)]


def _chunks(tasks: int, chunk: int) -> Iterator[int]:
    for first in range(0, tasks, chunk):
        yield min(chunk, tasks - first)


async def _fill(engine: Engine, queue: QueueId, tasks: int, chunk: int) -> None:
    for size in _chunks(tasks, chunk):
        await engine.submit(_plain(queue, size))


def _run(work: Coroutine[Any, Any, float]) -> float:
    return asyncio.run(work)


def submit_in_bulk(folder: Path, *, tasks: int, chunk: int) -> float:
    async def work() -> float:
        async with _open(folder) as engine:
            queue = await engine.queues.ensure(_QUEUE, by="bench")
            began = time.perf_counter()
            await _fill(engine, queue.id, tasks, chunk)
            return tasks / (time.perf_counter() - began)

    return _run(work())


def submit_one_by_one(folder: Path, *, tasks: int, producers: int) -> float:
    async def work() -> float:
        async with _open(folder, Rank.SERVER) as engine:
            await engine.queues.ensure(_QUEUE, by="bench")
            crowd = Producers(producers, _produce, folder, tasks // producers)
            crowd.start()
            began = await asyncio.to_thread(crowd.release)
            ended = await asyncio.to_thread(crowd.finish)
            counts, _ = await engine.counts()
            _check(sum(each.total for each in counts), tasks // producers * producers)
            return tasks / (ended - began)

    async def alone() -> float:
        # One producer owns the file itself, as an application without a node does.
        async with _open(folder) as engine:
            queue = await engine.queues.ensure(_QUEUE, by="bench")
            began = time.perf_counter()
            await asyncio.to_thread(_submit_each, engine, queue.id, tasks)
            return tasks / (time.perf_counter() - began)

    return _run(alone() if producers == 1 else work())


def _submit_each(engine: Engine, queue: QueueId, tasks: int) -> None:
    """One by one, each durable before the next, on a thread that waits, as a program without an event loop does."""
    for _ in range(tasks):
        engine.post_now((NewTask(queue, "function", _SPEC),))


def _produce(gate: Gate, _number: int, folder: Path, tasks: int) -> None:
    async def work() -> float:
        async with _open(folder) as engine:
            queue = await engine.queues.ensure(_QUEUE, by="bench")
            gate()
            await asyncio.to_thread(_submit_each, engine, queue.id, tasks)
            return 0.0

    _run(work())


def drain(folder: Path, *, tasks: int, batch: int) -> float:
    async def work() -> float:
        async with _open(folder) as engine:
            worker = await _worker(engine, batch)
            await _fill(engine, worker.claim.queues[0], tasks, _LOAD_CHUNK)
            began = time.perf_counter()
            await asyncio.gather(*(worker.drain() for _ in range(_SLOTS)))
            rate = tasks / (time.perf_counter() - began)
            _check(worker.done, tasks)
            return rate

    return _run(work())


def run_in_bulk(folder: Path, *, tasks: int, chunk: int, batch: int) -> float:
    async def work() -> float:
        async with _open(folder) as engine:
            worker = await _worker(engine, batch)
            began = time.perf_counter()
            workers = [worker.run(tasks) for _ in range(_SLOTS)]
            await asyncio.gather(_fill(engine, worker.claim.queues[0], tasks, chunk), *workers)
            rate = tasks / (worker.ended - began)
            _check(worker.done, tasks)
            return rate

    return _run(work())


def run_one_by_one(folder: Path, *, tasks: int, producers: int, batch: int) -> float:
    async def work() -> float:
        each = tasks // producers
        async with _open(folder, Rank.NODE) as engine:
            worker = await _worker(engine, batch)
            crowd = Producers(producers, _produce, folder, each)
            crowd.start()
            ran = asyncio.gather(*(worker.run(each * producers) for _ in range(_SLOTS)))
            began = await asyncio.to_thread(crowd.release)
            await ran
            rate = each * producers / (worker.ended - began)
            await asyncio.to_thread(crowd.finish)
            _check(worker.done, each * producers)
            return rate

    return _run(work())


def turn_over(folder: Path, *, tasks: int, batch: int) -> float:
    async def work() -> float:
        async with _open(folder) as engine:
            worker = await _worker(engine, batch)
            began = time.perf_counter()
            await _fill(engine, worker.claim.queues[0], tasks, batch)
            await worker.drain()
            rate = tasks / (time.perf_counter() - began)
            _check(worker.done, tasks)
            return rate

    return _run(work())


def prepare_backlog(folder: Path, *, backlog: Backlog, depth: int) -> None:
    async def work() -> float:
        async with _open(folder) as engine:
            policy = Policy(sort="lifo" if backlog == "lifo" else "fifo", max_per_key=1)
            retry = Retry(0, Fixed(0), sink=0)
            queue = await engine.queues.create(_QUEUE, with_retry(policy, retry), by="bench")
            if backlog in ("fifo", "lifo"):
                await _fill(engine, queue.id, depth, _LOAD_CHUNK)
            elif backlog == "full_key":
                await _fill_key(engine, queue.id, depth)
            else:
                await _fill_avoided(engine, queue.id, depth)
            if backlog not in ("fifo", "lifo"):
                await _fill(engine, queue.id, _PLAIN_AHEAD, _LOAD_CHUNK)
            return 0.0

    _run(work())


async def _fill_key(engine: Engine, queue: QueueId, depth: int) -> None:
    for size in _chunks(depth, _LOAD_CHUNK):
        await engine.submit([NewTask(queue, "function", _SPEC, limit_key="full") for _ in range(size)])
    worker = await _worker(engine, 1, "holder")
    await engine.claim(worker.claim)


async def _fill_avoided(engine: Engine, queue: QueueId, depth: int) -> None:
    """The holder that will claim gave every task back, and they avoid it for an hour; another node is there."""
    await _worker(engine, 1, "other")
    worker = await _worker(engine, 1_000)
    await _fill(engine, queue, depth, _LOAD_CHUNK)
    claimed = await engine.claim(worker.claim)
    while claimed:
        back = tuple(move(one.id, "release", one.fence)._replace(avoid=3_600_000) for one in claimed)
        claimed = (await engine.store.exchange(Exchange(back, worker.claim))).claimed


def time_claims(folder: Path, *, backlog: Backlog, batch: int) -> float:
    async def work() -> float:
        async with _open(folder) as engine:
            worker = await _worker(engine, batch)
            times = []
            for _ in range(_TIMED):
                began = time.perf_counter()
                claimed = await engine.claim(worker.claim)
                times.append(time.perf_counter() - began)
                if len(claimed) != batch:
                    raise RuntimeError(f"a claim of {batch} from {backlog} gave {len(claimed)}")
            return statistics.median(times)

    return _run(work())


def time_submits(folder: Path, *, batch: int) -> float:
    async def work() -> float:
        async with _open(folder) as engine:
            queue = await engine.queues.ensure(_QUEUE, by="bench")
            times = []
            for _ in range(_TIMED):
                tasks = _plain(queue.id, batch)
                began = time.perf_counter()
                await engine.submit(tasks)
                times.append(time.perf_counter() - began)
            return statistics.median(times)

    return _run(work())


def weigh(folder: Path) -> float:
    async def work() -> float:
        async with _open(folder) as engine:
            worker = await _worker(engine, 100)
            claimed: Sequence[Claimed] = await engine.claim(worker.claim)
            for _ in range(_TIMED):
                claimed = await worker.turn(claimed)
                await engine.submit(_plain(worker.claim.queues[0], 100))
            return psutil.Process(os.getpid()).memory_info().rss / 1e6

    return _run(work())


def grow_graph(folder: Path, *, shape: GraphShape, tasks: int) -> tuple[float, float]:
    async def work() -> tuple[float, float]:
        async with _open(folder) as engine:
            worker = await _worker(engine, 1_000)
            began = time.perf_counter()
            edges = await _submit_graph(engine, worker.claim.queues[0], shape, tasks)
            rate = tasks / (time.perf_counter() - began)
            began = time.perf_counter()
            await _settle_graph(engine, worker, _CHAIN if shape == "deep" else tasks)
            spent = time.perf_counter() - began
            return rate, spent / (_CHAIN if shape == "deep" else edges)

    return asyncio.run(work())


async def _settle_graph(engine: Engine, worker: Worker, tasks: int) -> None:
    """Settle so many; a step follows a bounded number of edges, so upkeep does its part in between."""
    claimed: Sequence[Claimed] = await engine.claim(worker.claim)
    while worker.done < tasks:
        if claimed:
            claimed = await worker.turn(claimed)
        else:
            await engine.store.tend(Tend(release=True, most=1_000))
            claimed = await engine.claim(worker.claim)


async def _submit_graph(engine: Engine, queue: QueueId, shape: GraphShape, tasks: int) -> int:
    """Submit a graph of that shape in chunks; how many edges it has."""
    if shape == "deep":
        return await _submit_chain(engine, queue, tasks)
    first = [] if shape == "join" else (await engine.submit(_plain(queue, 1))).ids
    middle = await _submit_children(engine, queue, first, tasks - len(first) - (shape != "wide"))
    if shape != "wide":
        parents = tuple(Edge(parent) for parent in middle)
        await engine.submit([NewTask(queue, "function", _SPEC, parents=parents)])
    return len(middle) * (len(first) + (shape != "wide"))


async def _submit_children(engine: Engine, queue: QueueId, parents: Sequence[TaskId], count: int) -> list[TaskId]:
    edges, ids = tuple(Edge(parent) for parent in parents), []
    for size in _chunks(count, 1_000):
        ids += (await engine.submit([NewTask(queue, "function", _SPEC, parents=edges) for _ in range(size)])).ids
    return ids


async def _submit_chain(engine: Engine, queue: QueueId, tasks: int) -> int:
    last: list[TaskId] = []
    for size in _chunks(tasks, 1_000):
        above = [last[-1] if last else 0, *(-number for number in range(1, size))]
        chain = [NewTask(queue, "function", _SPEC, parents=(Edge(parent),) if parent else ()) for parent in above]
        last = (await engine.submit(chain)).ids
    return tasks - 1
