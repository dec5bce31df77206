"""The last statement of a step may travel with its commit: both are stored, or nothing of the step is."""

from collections.abc import Callable

import pytest

from ganger.core.errors import StoreError
from ganger.databases.postgres import Database, Session, write_bytes, write_numbers, write_words
from ganger.databases.postgres.database import UNSEALED
from tests.unit.databases.postgres.counter import LostReply, add, read, run

CLOSING = "UPDATE counter SET n = n + 10 WHERE id = 2"


def test_it_is_stored_with_the_step(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        async def work(session: Session) -> None:
            await add(session)
            session.closing = CLOSING

        await database.transact(work, "adding")
        assert (await read(database, 1), await read(database, 2)) == (1, 10)

    run(postgres_url(), tell)


def test_one_that_fails_takes_the_step_back(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        async def work(session: Session) -> None:
            await add(session)
            session.closing = "SELECT 1 / 0"

        with pytest.raises(StoreError, match="division by zero"):
            await database.transact(work, "adding")
        assert await read(database) == 0
        await database.transact(add, "adding", alone=True)
        assert await read(database) == 1

    run(postgres_url(), tell)


@pytest.mark.parametrize(("arrives", "tries"), [(True, 1), (False, 2)])
def test_a_lost_reply_to_it_is_found_out(postgres_url: Callable[[], str], arrives: bool, tries: int) -> None:
    async def tell(database: Database) -> None:
        assert await database.transact(LostReply(arrives, CLOSING), "adding") == tries
        assert (await read(database, 1), await read(database, 2)) == (1, 10)

    run(postgres_url(), tell)


def test_one_whose_receipt_is_gone_runs_again_with_another(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        writers: list[str] = []

        async def work(session: Session) -> None:
            await add(session)
            writers.append(session.writer.name)
            if len(writers) == 1:
                session.closing = f"DO $$ BEGIN RAISE EXCEPTION 'gone' USING ERRCODE = '{UNSEALED}'; END $$"

        await database.transact(work, "adding")
        assert await read(database) == 1
        assert len(set(writers)) == len(writers) == 2

    run(postgres_url(), tell)


def test_values_are_written_as_the_server_reads_them(postgres_url: Callable[[], str]) -> None:
    async def tell(database: Database) -> None:
        words, numbers, bodies = ["settled", "-2", ""], [-1, 1 << 62], [b"\x00'\\\"{},", b""]
        text = (
            f"SELECT {write_words(words)}::text[], {write_numbers(numbers)}::bigint[], {write_bytes(bodies)}::bytea[],"
            f" {write_words([])}::text[]"
        )
        row = await database.read(lambda connection: connection.fetchrow(text), "reading")
        assert tuple(row) == (words, numbers, bodies, [])

    run(postgres_url(), tell)


@pytest.mark.parametrize("word", ["it's", 'a"b', "a\\b", "a b", "{", "a\n"])
def test_a_word_that_would_need_quoting_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="plain word"):
        write_words([word])
