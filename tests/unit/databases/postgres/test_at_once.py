"""A step that is one statement is its own transaction, and its outcome is known as that of any other."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ganger.core.errors import StoreError
from ganger.databases.postgres import Database, Session
from ganger.databases.postgres.database import CONNECTIONS, STRAYED, UNSEALED
from tests.unit.databases.postgres.counter import read, run

ONCE = """
WITH sealed AS (UPDATE receipt SET n = $1 WHERE writer = $2)
UPDATE counter SET n = n + 1 WHERE id = 1 RETURNING n
"""
RAISE = "DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{}'; END $$"


async def count(session: Session) -> str:
    n = await session.connection.fetchval(ONCE, session.writer.n, session.writer.name)
    session.wake("counted")
    return f"replied {n}"


async def recall(session: Session) -> str:
    n = await session.connection.fetchval("SELECT n FROM receipt WHERE writer = $1", session.writer.name)
    assert n == session.writer.n
    return "recalled"


def test_it_is_stored_and_told(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        heard = asyncio.Event()
        database.listen(["counted"], lambda _: heard.set())
        assert await database.transact_at_once(count, recall, "counting") == "replied 1"
        assert await read(database) == 1
        async with asyncio.timeout(10):
            await heard.wait()

    run(postgres_url(), tell)


@pytest.mark.parametrize(("arrives", "result"), [(True, "recalled"), (False, "replied 1")])
def test_a_lost_reply_is_found_out(postgres_url: Callable[[], str], arrives: bool, result: str) -> None:
    async def tell(database: Database) -> None:
        tries: list[str] = []

        async def work(session: Session) -> str:
            tries.append(session.writer.name)
            if len(tries) > 1:
                return await count(session)
            if arrives:
                await count(session)
            session.connection.terminate()
            raise ConnectionResetError("the cable was cut")

        assert await database.transact_at_once(work, recall, "counting") == result
        assert await read(database) == 1
        assert len(set(tries)) == len(tries), "nobody writes under the name of one that is not known to have ended"

    run(postgres_url(), tell)


def test_replies_that_are_lost_on_all_connections_at_once_are_found_out(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        lost: list[str] = []
        all_there = asyncio.Barrier(CONNECTIONS)

        async def work(session: Session) -> str:
            await count(session)
            lost.append(session.writer.name)
            async with all_there:
                session.connection.terminate()
            raise ConnectionResetError("the cable was cut")

        steps = (database.transact_at_once(work, recall, "counting") for _ in range(CONNECTIONS))
        async with asyncio.timeout(60):
            assert await asyncio.gather(*steps) == ["recalled"] * CONNECTIONS
        assert (len(lost), await read(database)) == (CONNECTIONS, CONNECTIONS)

    run(postgres_url(), tell)


def test_one_that_arrives_after_it_was_looked_for_is_never_stored(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        late: list[tuple[int, str]] = []

        async def work(session: Session) -> str:
            if not late:
                late.append((session.writer.n, session.writer.name))
                raise ConnectionResetError("the cable was cut")
            return await count(session)

        async def arrive(connection: Any) -> Any:
            return await connection.execute("UPDATE receipt SET n = $1 WHERE writer = $2", *late[0])

        assert await database.transact_at_once(work, recall, "counting") == "replied 1"
        assert await database.read(arrive, "arriving late") == "UPDATE 0"

    run(postgres_url(), tell)


def test_one_that_finds_things_otherwise_says_so(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        async def work(session: Session) -> str:
            await session.connection.execute(RAISE.format(STRAYED))
            return "made"

        assert await database.transact_at_once(work, recall, "counting") is None

    run(postgres_url(), tell)


def test_one_whose_receipt_is_gone_runs_again_with_another(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        writers: list[str] = []

        async def work(session: Session) -> str:
            writers.append(session.writer.name)
            if len(writers) == 1:
                await session.connection.execute(RAISE.format(UNSEALED))
            return await count(session)

        assert await database.transact_at_once(work, recall, "counting") == "replied 1"
        assert len(set(writers)) == len(writers) == 2

    run(postgres_url(), tell)


def test_one_that_fails_is_refused(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        async def work(session: Session) -> str:
            await session.connection.execute("SELECT * FROM nowhere")
            return "made"

        with pytest.raises(StoreError, match="nowhere"):
            await database.transact_at_once(work, recall, "counting")

    run(postgres_url(), tell)


def test_one_that_is_cancelled_is_seen_through(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        begun = asyncio.Event()

        async def work(session: Session) -> str:
            begun.set()
            return await count(session)

        running = asyncio.create_task(database.transact_at_once(work, recall, "counting"))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await read(database) == 1

    run(postgres_url(), tell)
