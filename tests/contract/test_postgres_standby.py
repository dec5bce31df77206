"""Lists are read from a standby, as long as it has all that was committed."""

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest

from ganger.core.ids import QueueId
from ganger.databases.postgres import standby
from ganger.engine.store import Query
from ganger.engine.stores.postgres import PostgresStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock
from ganger.testing.contracts.scene import Scene, plain
from tests.servers.postgres import QUICK, Missing, PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
COPIED = {**QUICK, "wal_level": "replica", "max_wal_senders": "4", "hot_standby": "on"}


@pytest.fixture(scope="module")
def pair(postgres: object) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A server and its standby. (The shared one is asked for because it says what to do where there is none.)"""
    try:
        primary = PostgresServer(COPIED)
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}; a server that somebody else runs is not copied")
    primary.start()
    copy = primary.copy("copy")
    copy.start()
    try:
        yield primary, copy
    finally:
        copy.stop()
        primary.stop()


async def open_store(primary: PostgresServer, copy: PostgresServer, schema: str) -> PostgresStore:
    url, read_url = primary.url(schema), copy.url(schema)
    return await PostgresStore.open(url, SystemClock(), SystemEntropy(), read_url=read_url)


async def count_reads(server: PostgresServer, store: PostgresStore, queue: QueueId) -> int:
    """List once; how many connections of Ganger's there are at that server."""
    assert len((await store.find(Query(queue))).tasks) > 0
    connection = await asyncpg.connect(server.url("x").replace("&schema=x", ""))
    try:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ganger'"
        return int(await connection.fetchval(asked))
    finally:
        await connection.close()


def test_a_list_is_read_from_the_standby_and_has_what_was_just_written(
    pair: tuple[PostgresServer, PostgresServer],
) -> None:
    async def story() -> None:
        store = await open_store(*pair, "reads")
        try:
            scene = Scene(store, FakeClock())
            queue = await scene.queue()
            for number in range(1, 20):
                await scene.submit(plain(queue))
                assert len((await store.find(Query(queue))).tasks) == number
                (counts,), _ = await store.counts()
                assert counts.total == number
            assert await count_reads(pair[1], store, queue) > 0
        finally:
            await store.close()

    asyncio.run(story())


def test_a_standby_that_is_gone_or_behind_is_done_without(
    pair: tuple[PostgresServer, PostgresServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "MOMENT", 0.0)
    primary, copy = pair

    async def story() -> None:
        store = await open_store(primary, copy, "gone")
        try:
            scene = Scene(store, FakeClock())
            queue = await scene.queue()
            for number in range(1, 20):
                await scene.submit(plain(queue))
                assert len((await store.find(Query(queue))).tasks) == number, "behind: read where the truth is"
            await asyncio.to_thread(copy.kill)
            await scene.submit(plain(queue))
            assert len((await store.find(Query(queue))).tasks) == 20
        finally:
            await store.close()
            await asyncio.to_thread(copy.start)

    asyncio.run(story())
