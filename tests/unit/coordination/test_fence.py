"""An epoch is checked in the transaction of the write that it protects."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from ganger.coordination.backend import Version
from ganger.coordination.fence import async_prepare_epochs, async_raise_epoch, prepare_epochs, raise_epoch
from ganger.core.errors import BadInput, StaleEpoch
from ganger.databases.postgres import read_address

ORDER = [Version(1, 5), Version(1, 9), Version(2, 1), Version(3, 0)]


def write(connection: sqlite3.Connection, epoch: Version, text: str) -> None:
    with connection:
        connection.execute("INSERT INTO report VALUES (?)", (text,))
        raise_epoch(connection, "lock/a", epoch)


def test_what_an_older_holder_writes_is_rolled_back(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine.db")) as connection:
        connection.execute("CREATE TABLE report (line text)")
        prepare_epochs(connection)
        prepare_epochs(connection)
        for epoch in ORDER:
            write(connection, epoch, str(epoch))
            write(connection, epoch, "again")
        for epoch in ORDER[:-1]:
            with pytest.raises(StaleEpoch):
                write(connection, epoch, "late")

        lines = [line for (line,) in connection.execute("SELECT line FROM report")]
        assert lines == [text for epoch in ORDER for text in (str(epoch), "again")]


def test_each_lock_has_an_epoch_of_its_own(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine.db")) as connection:
        prepare_epochs(connection)
        raise_epoch(connection, "lock/a", Version(9, 9))
        raise_epoch(connection, "lock/b", Version(1, 1))
        with pytest.raises(StaleEpoch) as caught:
            raise_epoch(connection, "lock/a", Version(9, 8))

    assert caught.value.fields == {"lock": "lock/a", "epoch": "9.8"}


def test_it_works_with_apsw() -> None:
    connection = apsw.Connection(":memory:")
    prepare_epochs(connection)
    raise_epoch(connection, "lock/a", Version(2, 1))
    with pytest.raises(StaleEpoch):
        raise_epoch(connection, "lock/a", Version(1, 7))


@pytest.mark.servers
def test_it_works_with_psycopg_both_ways(postgres_url: Callable[[], str]) -> None:
    import psycopg

    url = read_address(postgres_url()).url
    with psycopg.connect(url) as connection:
        prepare_epochs(connection)
        raise_epoch(connection, f"lock/{url}", Version(2, 1))
        connection.commit()
        with pytest.raises(StaleEpoch):
            raise_epoch(connection, f"lock/{url}", Version(1, 7))
        with pytest.raises(BadInput):
            asyncio.run(async_raise_epoch(connection, "lock/a", Version(1, 7)))

    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(url) as connection:
            with pytest.raises(StaleEpoch):
                await async_raise_epoch(connection, f"lock/{url}", Version(2, 0))
            await async_raise_epoch(connection, f"lock/{url}", Version(2, 1))
            with pytest.raises(BadInput):
                raise_epoch(connection, "lock/a", Version(1, 7))

    asyncio.run(run())


@pytest.mark.servers
def test_a_writer_waits_for_another_under_the_same_lock(postgres_url: Callable[[], str]) -> None:
    import asyncpg

    url = read_address(postgres_url()).url
    lock = f"lock/wait/{url}"

    async def run() -> None:
        old, new = await asyncpg.connect(url), await asyncpg.connect(url)
        await async_prepare_epochs(old)
        begun: Any = new.transaction()
        await begun.start()
        await async_raise_epoch(new, lock, Version(1, 2))
        late = asyncio.ensure_future(async_raise_epoch(old, lock, Version(1, 1)))
        await asyncio.wait([late], timeout=0.1)
        assert not late.done()
        await begun.commit()
        with pytest.raises(StaleEpoch):
            await late
        for connection in (old, new):
            await connection.close()

    asyncio.run(run())
