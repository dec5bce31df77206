"""The MongoDB server dies under the stores that use it: nothing that was acknowledged is lost, and they go on."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress

import pytest

from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.state import Move, Status, Verdict, move
from ganger.engine.store import EVENTS_TOPIC, Claim, Exchange, Submission
from ganger.engine.stores.mongo import MongoStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock
from ganger.testing.contracts.scene import Scene, plain
from tests.servers.mongo import MongoServer
from tests.servers.mortal import run_mortal
from tests.servers.proxy import CuttingPort

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(400)]
KILLS = 2
TASKS = 60
STANDSTILL = 1.0
"""Seconds for which the server answers nobody."""


@pytest.fixture(params=[False, True], ids=["standalone", "replica-set"], scope="module")
def mortal(request: pytest.FixtureRequest, mongo: object) -> Iterator[MongoServer]:
    with run_mortal(lambda: MongoServer(replica=request.param)) as server:
        yield server


def test_a_server_that_is_killed_and_comes_back_has_lost_nothing(mortal: MongoServer) -> None:
    async def kill(store: MongoStore) -> None:
        for number in range(KILLS):
            await _hear_of(store, (number + 1) * 20)
            await asyncio.to_thread(mortal.kill)
            await asyncio.to_thread(mortal.start)

    asyncio.run(_live_through(mortal.url("mortal"), kill))


def test_a_server_that_stands_still_for_a_while_loses_nothing(mortal: MongoServer) -> None:
    async def stop(store: MongoStore) -> None:
        for number in range(KILLS):
            await _hear_of(store, (number + 1) * 20)
            mortal.pause()
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), STANDSTILL)
            mortal.go_on()

    asyncio.run(_live_through(mortal.url("still"), stop))


def test_connections_that_are_cut_at_any_byte_lose_and_double_nothing(mortal: MongoServer) -> None:
    async def story() -> None:
        async with CuttingPort(mortal.port, 20_000, 200_000, seed=1) as proxy:
            proxy.cuts = False

            async def cut(_: MongoStore) -> None:
                proxy.cuts = True

            await _live_through(mortal.url("cut").replace(str(mortal.port), str(proxy.port)), cut)
            assert proxy.broken > 0

    asyncio.run(story())


async def _live_through(url: str, disturb: Callable[[MongoStore], Awaitable[None]]) -> None:
    async with AsyncExitStack() as stack:
        stores = [await open_patient(url) for _ in range(2)]
        for store in stores:
            stack.push_async_callback(store.close)
        await _work_through(stores, disturb)


async def _work_through(stores: list[MongoStore], disturb: Callable[[MongoStore], Awaitable[None]]) -> None:
    first = Scene(stores[0], FakeClock())
    queue, node = await first.queue(), await first.node(lease=600_000)
    submitting = asyncio.ensure_future(_submit(stores[0], queue))
    working = asyncio.ensure_future(_work(stores[1], node, queue, submitting))
    await disturb(stores[0])
    submitted, (had, refused) = await submitting, await working
    assert sorted(had) == sorted(submitted), "every acknowledged task was had, and none that nobody submitted"
    assert refused == 0, "a reply that was lost is found out, not guessed"
    assert set(had.values()) == {1}
    (counts,), _ = await stores[1].counts()
    assert counts.by_status == {Status.SUCCEEDED: TASKS}


async def open_patient(url: str) -> MongoStore:
    """A store that waits for its server as long as a busy machine may take to start it."""
    return await MongoStore.open(url, SystemClock(), SystemEntropy(), patience=120.0)


async def _hear_of(store: MongoStore, events: int) -> None:
    """Wait until so many things have happened."""
    heard = asyncio.Event()
    stop = store.listen((EVENTS_TOPIC,), lambda _: heard.set())
    while (await store.directory()).last_event < events:
        await heard.wait()
        heard.clear()
    stop()


async def _submit(store: MongoStore, queue: QueueId) -> list[TaskId]:
    return [(await store.submit(Submission((plain(queue),)))).ids[0] for _ in range(TASKS)]


async def _work(
    store: MongoStore, node: NodeId, queue: QueueId, submitting: "asyncio.Future[list[TaskId]]"
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
