"""Ganger on PostgreSQL: `ganger up` with one slot, and so one warm process for functions; `delay` and `send`."""

from __future__ import annotations

import asyncio

import asyncpg

from bench.contender import Contender
from bench.contenders.ganger_tasks import run_node, send, submit, submit_in_bulk, use_store
from bench.databases.postgres import clear, name_store
from bench.peers.postgres_server import USER
from bench.place import find_place

_SOCKET = find_place().postgres
_SCHEMA = "contender"
_STORE = use_store(name_store(_SOCKET, _SCHEMA))


def prepare() -> None:
    asyncio.run(clear(_SOCKET, _SCHEMA))


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
    worker=run_node(_STORE),
    submit=submit,
    prepare=prepare,
    submit_in_bulk=submit_in_bulk,
    has_settled=has_settled,
    send=send,
)
