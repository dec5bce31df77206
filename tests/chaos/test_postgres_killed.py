"""The PostgreSQL server dies under the stores that use it: nothing that was acknowledged is lost, and they go on."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest

from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.state import Move, Status, Verdict, move
from ganger.engine.store import EVENTS_TOPIC, Claim, Exchange, Submission
from ganger.engine.stores.postgres import PostgresStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock
from ganger.testing.contracts.scene import Scene, plain
from tests.servers.postgres import Missing, PostgresServer

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(120)]
KILLS = 3
TASKS = 400


@pytest.fixture
def mortal(postgres: object) -> Iterator[PostgresServer]:
    """A server of the test's own. (The shared one is asked for because it says what to do where there is none.)"""
    try:
        server = PostgresServer()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}; a server that somebody else runs is not killed")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def test_a_server_that_is_killed_and_comes_back_has_lost_nothing(mortal: PostgresServer) -> None:
    asyncio.run(_live_through(mortal))


async def _live_through(server: PostgresServer) -> None:
    stores = [await PostgresStore.open(server.url("mortal"), SystemClock(), SystemEntropy()) for _ in range(2)]
    first = Scene(stores[0], FakeClock())
    queue, node = await first.queue(), await first.node(lease=600_000)
    submitting = asyncio.ensure_future(_submit(stores[0], queue))
    working = asyncio.ensure_future(_work(stores[1], node, queue, submitting))
    for number in range(KILLS):
        await _hear_of(stores[0], (number + 1) * 20)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
    submitted, (had, refused) = await submitting, await working
    assert sorted(had) == sorted(submitted), "every acknowledged task was had, and none that nobody submitted"
    assert refused == 0, "a reply that was lost is found out, not guessed"
    assert set(had.values()) == {1}
    (counts,), _ = await stores[1].counts()
    assert counts.by_status == {Status.SUCCEEDED: TASKS}
    for store in stores:
        await store.close()


async def _hear_of(store: PostgresStore, events: int) -> None:
    """Wait until so many things have happened."""
    heard = asyncio.Event()
    stop = store.listen((EVENTS_TOPIC,), lambda _: heard.set())
    while (await store.directory()).last_event < events:
        await heard.wait()
        heard.clear()
    stop()


async def _submit(store: PostgresStore, queue: QueueId) -> list[TaskId]:
    return [(await store.submit(Submission((plain(queue),)))).ids[0] for _ in range(TASKS)]


async def _work(
    store: PostgresStore, node: NodeId, queue: QueueId, submitting: "asyncio.Future[list[TaskId]]"
) -> tuple[Counter[int], int]:
    """Take and end tasks until all that were submitted have ended; how often each was had, and refusals."""
    had: Counter[int] = Counter()
    refused = 0
    moves: tuple[Move, ...] = ()
    while moves or not submitting.done() or sum(had.values()) < TASKS:
        done = await store.exchange(Exchange(moves, Claim(node, (queue,), 5)))
        refused += sum(verdict == Verdict.STALE for _, verdict in done.refused)
        had.update(one.id for one in done.claimed)
        moves = tuple(move(one.id, "succeed", one.fence) for one in done.claimed)
    return had, refused
