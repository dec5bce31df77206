"""A PostgreSQL database: opened by many at once, and every transaction ends with a known outcome."""

import asyncio
from collections.abc import Callable

import pytest

from ganger.core.errors import (
    BadInput,
    MigrationChanged,
    StoreClosed,
    StoreNewerVersion,
    StoreNotADatabase,
    StoreUnavailable,
)
from ganger.databases.postgres import Database, Migration, NeedsToRunAlone, RunAgain, Session
from tests.unit.databases.postgres.counter import MADE, LostReply, add, opened, read, run


def test_eight_that_start_at_once_migrate_once(postgres_url: Callable[[], str]) -> None:
    async def story(url: str) -> None:
        async def start() -> int:
            async with opened(url) as database:
                return await read(database)

        assert await asyncio.gather(*(start() for _ in range(8))) == [0] * 8

    asyncio.run(story(postgres_url()))


def test_a_migration_that_was_edited_is_refused(postgres_url: Callable[[], str]) -> None:
    async def story(url: str) -> None:
        async with opened(url):
            pass
        with pytest.raises(MigrationChanged):
            async with opened(url, Migration(1, "made", MADE.sql + " ")):
                pass

    asyncio.run(story(postgres_url()))


def test_a_schema_of_a_newer_version_is_refused(postgres_url: Callable[[], str]) -> None:
    async def story(url: str) -> None:
        async with opened(url, MADE, Migration(2, "more", "CREATE TABLE more (id integer)")):
            pass
        with pytest.raises(StoreNewerVersion):
            async with opened(url):
                pass

    asyncio.run(story(postgres_url()))


def test_a_migration_that_fails_leaves_nothing(postgres_url: Callable[[], str]) -> None:
    async def story(url: str) -> None:
        with pytest.raises(Exception, match="does not exist"):
            async with opened(url, MADE, Migration(2, "bad", "ALTER TABLE nowhere ADD COLUMN x integer")):
                pass
        async with opened(url) as database:
            assert await read(database) == 0

    asyncio.run(story(postgres_url()))


def test_two_that_lock_each_other_out_both_get_through(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        met, through = asyncio.Barrier(2), asyncio.Event()
        tries = 0

        async def cross(session: Session, rows: tuple[int, int]) -> None:
            nonlocal tries
            tries += 1
            # The one that was sent back holds nothing yet, so the other gets through; else they might meet once more.
            sent_back = tries > 2
            if sent_back:
                await through.wait()
            await add(session, rows[0])
            if not sent_back:
                await met.wait()
            await add(session, rows[1])

        async def go(rows: tuple[int, int]) -> None:
            await database.transact(lambda session: cross(session, rows), "crossing")
            through.set()

        await asyncio.gather(go((1, 2)), go((2, 1)))
        assert (await read(database, 1), await read(database, 2)) == (2, 2)
        assert tries == 3

    run(postgres_url(), tell)


def test_a_connection_that_breaks_before_the_commit_costs_another_try(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        tries = 0

        async def work(session: Session) -> int:
            nonlocal tries
            tries += 1
            await add(session)
            if tries == 1:
                session.connection.terminate()
            return int(await session.connection.fetchval("SELECT 7"))

        assert await database.transact(work, "adding") == 7
        assert (await read(database), tries) == (1, 2)

    run(postgres_url(), tell)


@pytest.mark.parametrize(("arrives", "tries"), [(True, 1), (False, 2)])
def test_a_lost_reply_to_a_commit_is_found_out(postgres_url: Callable[[], str], arrives: bool, tries: int) -> None:
    async def tell(database: Database) -> None:
        assert await database.transact(LostReply(arrives), "adding") == tries
        assert await read(database) == 1

    run(postgres_url(), tell)


def test_whoever_is_cancelled_leaves_nothing_half_done(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        begun = asyncio.Event()

        async def work(session: Session) -> None:
            await add(session)
            begun.set()
            await session.connection.execute("SELECT pg_sleep(30)")

        task = asyncio.ensure_future(database.transact(work, "adding"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await database.transact(add, "adding", alone=True)
        assert await read(database) == 1

    run(postgres_url(), tell)


def test_a_step_that_must_run_alone_does(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        inside, most = 0, 0

        async def work(session: Session) -> None:
            nonlocal inside, most
            session.needs_to_run_alone()
            inside += 1
            most = max(most, inside)
            await add(session)
            inside -= 1

        await asyncio.gather(*(database.transact(work, "adding") for _ in range(6)))
        assert (await read(database), most) == (6, 1)

    run(postgres_url(), tell)


def test_a_step_that_asks_for_it_runs_again_and_stores_nothing_of_the_first(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        reasons = [RunAgain, NeedsToRunAlone]

        async def work(session: Session) -> None:
            await add(session)
            if reasons:
                raise reasons.pop()

        await database.transact(work, "adding")
        assert await read(database) == 1

    run(postgres_url(), tell)


def test_a_server_that_is_not_there_is_said_to_be_so(postgres_url: Callable[[], str]) -> None:
    with pytest.raises(StoreUnavailable, match="is it running"):
        run("postgresql://tests@/nowhere?host=/nonexistent", lambda _: asyncio.sleep(0))


def test_a_database_that_is_not_there_is_said_to_be_so(postgres_url: Callable[[], str]) -> None:
    with pytest.raises(StoreNotADatabase, match="no such database"):
        run(postgres_url().replace("/postgres?", "/nowhere?"), lambda _: asyncio.sleep(0))


def test_a_text_that_it_cannot_keep_is_bad_input(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        async def work(session: Session) -> None:
            await session.connection.fetchval("SELECT $1::text", "a\0b")

        with pytest.raises(BadInput, match="NUL"):
            await database.transact(work, "writing")

    run(postgres_url(), tell)


def test_what_is_closed_says_so(postgres_url: Callable[[], str]) -> None:
    async def story(url: str) -> None:
        async with opened(url) as database:
            pass
        with pytest.raises(StoreClosed):
            await database.transact(add, "adding")

    asyncio.run(story(postgres_url()))


def test_patience_ends_when_the_connection_breaks_again_and_again(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        async def work(session: Session) -> None:
            session.connection.terminate()
            await session.connection.fetchval("SELECT 1")

        with pytest.raises(StoreUnavailable):
            await database.transact(work, "adding")

    run(postgres_url(), tell, patience=0.1)
