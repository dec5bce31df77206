"""Does the schema stay its size when tasks come and go? An even stream of tasks, each removed soon after its end.

A table that is written all the time has a size of its own: what is live, and what dies between two visits of the
vacuum. It is reached in the first third; from then on the files should grow no more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg

from bench.databases.crowd import SLOTS, join, run
from bench.databases.postgres import clear, fill, open_engine
from bench.ganger_engine import Worker
from bench.peers.postgres_server import USER
from ganger.core.clock import Wall
from ganger.core.task import Claimed
from ganger.engine.engine import Engine
from ganger.engine.store import Tend

_SCHEMA = "growth"
_TICK = 0.1
_KEPT = 30.0
"""Seconds for which a task is kept when it has ended."""
_SPARE = 600.0
"""Seconds for which the node may live on when the stream has ended."""


def grow(_folder: Path, *, socket: str, rate: int, seconds: float) -> tuple[float, float, float]:
    """The size at the end over that after a third of the time; megabytes at the end; tasks a second that were done."""
    return run(_grow(socket, rate, seconds))


async def _grow(socket: str, rate: int, seconds: float) -> tuple[float, float, float]:
    await clear(socket, _SCHEMA)
    async with open_engine(socket, _SCHEMA) as engine:
        worker = await join(engine, 100, lease=round((seconds + _SPARE) * 1000))
        working = [asyncio.ensure_future(each) for each in (*(_work(worker) for _ in range(SLOTS)), _prune(engine))]
        try:
            await _stream(engine, worker, rate, seconds / 3)
            _check_alive(working)
            early = await _weigh(socket)
            began, before = time.perf_counter(), worker.done
            await _stream(engine, worker, rate, seconds * 2 / 3)
            _check_alive(working)
            late = await _weigh(socket)
            return late / early, late / 1e6, (worker.done - before) / (time.perf_counter() - began)
        finally:
            for each in working:
                each.cancel()
            await asyncio.gather(*working, return_exceptions=True)


def _check_alive(working: Sequence[asyncio.Future[None]]) -> None:
    """A table that nobody works at says nothing."""
    for each in working:
        if each.done():
            each.result()


async def _stream(engine: Engine, worker: Worker, rate: int, seconds: float) -> None:
    """Submit at an even rate; who falls behind catches up, so that the mean is kept."""
    began, sent = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        if due := int(passed * rate) - sent:
            await fill(engine, worker.claim.queues[0], due)
            sent += due
        await asyncio.sleep(_TICK)


async def _work(worker: Worker) -> None:
    while True:
        claimed: Sequence[Claimed] = await worker.engine.wait_claim(worker.claim, 1.0)
        while claimed:
            claimed = await worker.turn(claimed)


async def _prune(engine: Engine) -> None:
    while True:
        before = Wall(round((time.time() - _KEPT) * 1000))
        while (await engine.store.tend(Tend(prune_before=before, most=1_000))).more:
            pass
        await asyncio.sleep(1.0)


async def _weigh(socket: str) -> float:
    """Bytes of all tables and indexes of the schema."""
    connection = await asyncpg.connect(host=socket, user=USER, database="postgres")
    try:
        size: int = await connection.fetchval(
            "SELECT sum(pg_total_relation_size(pg_class.oid))::bigint FROM pg_class "
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relkind = 'r'",
            _SCHEMA,
        )
        return float(size)
    finally:
        await connection.close()
