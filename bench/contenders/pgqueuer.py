"""PgQueuer on PostgreSQL: dequeued by batches, one connection, autovacuum as its guide advises.

The worker is this module: it does what `pgq run` does, which in 1.6 fails with newer versions of typer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench import tally
from bench.contender import CHUNK, Body, Contender, python
from bench.peers.pgqueuer import connect
from bench.peers.settings import PgQueuerSettings
from bench.place import find_place

_SETTINGS = PgQueuerSettings()


async def work() -> None:
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    worker = PgQueuer(AsyncpgDriver(await connect(find_place().postgres)))
    worker.entrypoint("note")(_note)
    worker.entrypoint("stamp")(_stamp)
    worker.entrypoint("work")(_work)
    workers = find_place().workers
    # It wants room for two batches.
    await worker.run(batch_size=workers // 2 or _SETTINGS.batch_size, max_concurrent_tasks=workers or None)


async def _note(_job: object) -> None:
    tally.note()


async def _stamp(_job: object) -> None:
    tally.stamp()


async def _work(job: Job) -> None:
    tally.note_wait(float(job.payload or b"nan"))
    await asyncio.sleep(tally.WORK)


def prepare() -> None:
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    uvloop.run(_prepare())


async def _prepare() -> None:
    connection: asyncpg.Connection = await connect(find_place().postgres)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    await connection.close()


def submit(body: Body, turns: Iterable[object]) -> None:
    uvloop.run(_submit(body, turns))


async def _submit(body: Body, turns: Iterable[object]) -> None:
    connection = await connect(find_place().postgres)
    queries = Queries(AsyncpgDriver(connection))
    for _ in turns:
        await queries.enqueue(body, None)
    await connection.close()


def submit_in_bulk(tasks: int) -> None:
    uvloop.run(_submit_in_bulk(tasks))


async def _submit_in_bulk(tasks: int) -> None:
    connection = await connect(find_place().postgres)
    queries = Queries(AsyncpgDriver(connection))
    for first in range(0, tasks, CHUNK):
        size = min(CHUNK, tasks - first)
        await queries.enqueue(["note"] * size, [None] * size, [0] * size)
    await connection.close()


def send(batches: Iterable[Sequence[float]]) -> None:
    uvloop.run(_send(batches))


async def _send(batches: Iterable[Sequence[float]]) -> None:
    connection = await connect(find_place().postgres)
    queries = Queries(AsyncpgDriver(connection))
    for moments in batches:
        size = len(moments)
        await queries.enqueue(["work"] * size, [repr(moment).encode() for moment in moments], [0] * size)
    await connection.close()


CONTENDER = Contender(python("bench.contenders.pgqueuer"), submit, prepare, submit_in_bulk, send=send)

if __name__ == "__main__":
    uvloop.run(work())
