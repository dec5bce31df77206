"""PgQueuer on a PostgreSQL of the run's own: no-op entrypoint, bulk enqueue, dequeue by batches."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import asyncpg
import uvloop
from pgqueuer.core.qm import QueueManager
from pgqueuer.db import AsyncpgDriver
from pgqueuer.domain.types import QueueExecutionMode
from pgqueuer.queries import Queries

from bench.peers.postgres_server import USER
from bench.peers.settings import PgQueuerSettings
from bench.producers import Gate, Producers

_ENTRYPOINT = "noop"


def enqueue(_folder: Path, *, socket: str, tasks: int, settings: PgQueuerSettings) -> float:
    """Tasks enqueued a second, a chunk at a time."""
    return float(uvloop.run(_enqueue(socket, tasks, settings)))


def drain(_folder: Path, *, socket: str, tasks: int, settings: PgQueuerSettings) -> float:
    """Tasks a second from the start of a queue manager on a full queue to the last body that ran."""
    return float(uvloop.run(_drain(socket, tasks, settings)))


def run_in_bulk(_folder: Path, *, socket: str, tasks: int, settings: PgQueuerSettings) -> float:
    """Tasks a second from the first bulk enqueue in another process to the last body that ran."""
    uvloop.run(_empty(socket))
    crowd = Producers(1, produce, socket, tasks, settings)
    crowd.start()
    rate = float(uvloop.run(_run_in_bulk(socket, tasks, settings, crowd)))
    crowd.finish()
    return rate


async def connect(socket: str) -> asyncpg.Connection:
    return await asyncpg.connect(host=socket, user=USER, database="postgres")


async def open_empty(socket: str) -> tuple[asyncpg.Connection, Queries]:
    """A connection to an installed, tuned and empty queue."""
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    connection = await connect(socket)
    queries = Queries(AsyncpgDriver(connection))
    if not await queries.schema_is_installed():
        await queries.install()
        await queries.optimize_autovacuum()
    await connection.execute("TRUNCATE pgqueuer, pgqueuer_log, pgqueuer_statistics")
    return connection, queries


async def _empty(socket: str) -> None:
    connection, _ = await open_empty(socket)
    await connection.close()


async def fill(queries: Queries, tasks: int, chunk: int) -> None:
    for first in range(0, tasks, chunk):
        size = min(chunk, tasks - first)
        await queries.enqueue([_ENTRYPOINT] * size, [None] * size, [0] * size)


async def _enqueue(socket: str, tasks: int, settings: PgQueuerSettings) -> float:
    connection, queries = await open_empty(socket)
    began = time.perf_counter()
    await fill(queries, tasks, settings.enqueue_chunk)
    ended = time.perf_counter()
    await connection.close()
    return tasks / (ended - began)


async def _drain(socket: str, tasks: int, settings: PgQueuerSettings) -> float:
    connection, queries = await open_empty(socket)
    await fill(queries, tasks, settings.enqueue_chunk)
    worker = Worker(queries, tasks)
    began = time.perf_counter()
    await worker.manager.run(batch_size=settings.batch_size, mode=QueueExecutionMode.drain)
    await _check_all_done(connection, tasks)
    return tasks / (worker.ended - began)


async def _run_in_bulk(socket: str, tasks: int, settings: PgQueuerSettings, crowd: Producers) -> float:
    connection = await connect(socket)
    worker = Worker(Queries(AsyncpgDriver(connection)), tasks)
    began = crowd.release()
    await worker.manager.run(batch_size=settings.batch_size)
    await _check_all_done(connection, tasks)
    return tasks / (worker.ended - began)


async def _check_all_done(connection: asyncpg.Connection, tasks: int) -> None:
    left = await connection.fetchval("SELECT count(*) FROM pgqueuer")
    done = await connection.fetchval("SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'")
    await connection.close()
    if left or done != tasks:
        raise RuntimeError(f"{left} tasks are left and {done} are done of {tasks}")


def produce(gate: Gate, _number: int, socket: str, tasks: int, settings: PgQueuerSettings) -> None:
    uvloop.run(_produce(gate, socket, tasks, settings))


async def _produce(gate: Gate, socket: str, tasks: int, settings: PgQueuerSettings) -> None:
    connection = await connect(socket)
    queries = Queries(AsyncpgDriver(connection))
    gate()
    await fill(queries, tasks, settings.enqueue_chunk)
    await connection.close()


class Worker:
    """A queue manager that ends itself after the last task; the body only counts, and notes that moment."""

    def __init__(self, queries: Queries, tasks: int) -> None:
        self.ended = 0.0
        self.manager = QueueManager(queries)
        self._left = tasks
        self.manager.entrypoint(_ENTRYPOINT)(self._count)

    async def _count(self, _job: object) -> None:
        self._left -= 1
        if self._left == 0:
            self.ended = time.perf_counter()
            self.manager.shutdown.set()
