"""Ganger on PostgreSQL: `ganger up` with one slot, and so one warm process for functions; `delay` and `send`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from urllib.parse import quote

import asyncpg

from bench import tally
from bench.contender import Body, Contender, chunks, script
from bench.databases.postgres import clear
from bench.peers.postgres_server import USER
from bench.place import find_place
from ganger import Ganger

_SOCKET = find_place().postgres
_SCHEMA = "contender"
os.environ["GANGER_HOME"] = find_place().folder
_STORE = f"postgresql://{USER}@/postgres?host={quote(_SOCKET)}&schema={_SCHEMA}"

app = Ganger(_STORE, upkeep=False)


@app.task
def note() -> None:
    tally.note()


@app.task
def stamp() -> None:
    tally.stamp()


def prepare() -> None:
    asyncio.run(clear(_SOCKET, _SCHEMA))


def submit(body: Body, turns: Iterable[object]) -> None:
    with app:
        app.wait([], 0)
        task = note if body == "note" else stamp
        for _ in turns:
            task.delay()


def submit_in_bulk(tasks: int) -> None:
    with app:
        for size in chunks(tasks):
            app.send([note.bind()] * size)


def has_settled(tasks: int) -> bool:
    return asyncio.run(_count_settled()) == tasks


async def _count_settled() -> int:
    connection = await asyncpg.connect(host=_SOCKET, user=USER, database="postgres")
    try:
        done: int = await connection.fetchval(
            f"SELECT coalesce(sum(n), 0)::bigint FROM {_SCHEMA}.book WHERE name = '1'"
        )
        return done
    finally:
        await connection.close()


CONTENDER = Contender(
    worker=(script("ganger"), "up", "--store", _STORE, "--name", "bench", "--slots", "1", "--quiet"),
    submit=submit,
    prepare=prepare,
    submit_in_bulk=submit_in_bulk,
    has_settled=has_settled,
)
