"""Procrastinate on PostgreSQL: async jobs in slots, woken by LISTEN, deleted when they succeed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import psycopg
from procrastinate import App, PsycopgConnector

from bench import tally
from bench.contender import Body, Contender, chunks, python
from bench.peers.postgres_server import USER
from bench.peers.settings import ProcrastinateSettings
from bench.place import find_place

_SETTINGS = ProcrastinateSettings()
_SERVER = {"host": find_place().postgres, "user": USER, "dbname": "postgres"}

app = App(connector=PsycopgConnector(kwargs=_SERVER))
_TASKS = {"note": app.task(name="note")(tally.note_async), "stamp": app.task(name="stamp")(tally.stamp_async)}


def prepare() -> None:
    with psycopg.connect(**_SERVER, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    asyncio.run(_install())


async def _install() -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


def submit(body: Body, turns: Iterable[object]) -> None:
    asyncio.run(_submit(body, turns))


async def _submit(body: Body, turns: Iterable[object]) -> None:
    async with app.open_async():
        task = _TASKS[body]
        for _ in turns:
            await task.defer_async()


def submit_in_bulk(tasks: int) -> None:
    asyncio.run(_submit_in_bulk(tasks))


async def _submit_in_bulk(tasks: int) -> None:
    async with app.open_async():
        for size in chunks(tasks):
            await _TASKS["note"].batch_defer_async(*[{}] * size)


_WORKER = ("worker", "--concurrency", str(_SETTINGS.concurrency), "--delete-jobs", _SETTINGS.delete_jobs)

CONTENDER = Contender(
    python("procrastinate", "--app", "bench.contenders.procrastinate.app", *_WORKER), submit, prepare, submit_in_bulk
)
