"""What a claim and a settle write stays in its page: no index of a task is written anew on the usual way."""

import asyncio
from collections.abc import Callable
from typing import Final

import asyncpg
import pytest

from ganger.core.ids import NodeId, QueueId
from ganger.core.state import Move, move
from ganger.databases.postgres import read_address
from ganger.engine.store import Claim, Exchange
from ganger.engine.stores.postgres import PostgresStore
from ganger.testing.contracts.scene import plain
from tests.contract.test_postgres_together import LONG, run, scene

TASKS: Final = 4_000
BATCH: Final = 100
SLOTS: Final = 4
SHARE: Final = 0.98
"""Of all claims and settles: a page that four slots fill at one moment may have no room for the last of them."""
PATIENCE: Final = 30.0
POLL: Final = 0.1
WRITTEN: Final = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_all_tables WHERE schemaname = $1 AND relname = $2"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def test_claims_and_settles_of_a_drain_leave_the_indexes_of_their_tasks_alone(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()

    async def tell(stores: list[PostgresStore]) -> None:
        first = scene(stores[0])
        queue = await first.queue()
        # Each with a node of its own: exchanges of one node would be gathered.
        nodes = [await first.node(f"n{number}", lease=LONG) for number in range(SLOTS)]
        await first.submit(*[plain(queue)] * TASKS)
        await asyncio.gather(*(_drain(stores[0], node, queue) for node in nodes))
        updates, hot = await _await_updates(url, "task", 2 * TASKS)
        assert updates == 2 * TASKS
        assert hot >= SHARE * updates
        for table in ("store", "book", "receipt"):
            updates, hot = await _await_updates(url, table, TASKS // BATCH)
            assert hot >= SHARE * updates, table

    run(url, tell, 1)


async def _drain(store: PostgresStore, node: NodeId, queue: QueueId) -> None:
    moves: tuple[Move, ...] = ()
    while True:
        done = await store.exchange(Exchange(moves, Claim(node, (queue,), BATCH, start=True)))
        moves = tuple(move(one.id, "succeed", one.fence) for one in done.claimed)
        if not moves:
            return


async def _await_updates(url: str, table: str, least: int) -> tuple[int, int]:
    """The counts of the server, which come in a moment after the commits; it is waited until they are whole."""
    address = read_address(url)
    connection = await asyncpg.connect(address.url)
    try:
        async with asyncio.timeout(PATIENCE):
            counts = await connection.fetchrow(WRITTEN, address.schema, table)
            while counts[0] < least:  # the server's own counters set no event here
                await asyncio.sleep(POLL)
                counts = await connection.fetchrow(WRITTEN, address.schema, table)
        return counts[0], counts[1]
    finally:
        await connection.close()
