"""Several MongoDB stores on one database: what they do at once is as if one did it after another."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from ganger.core.event import Event, Fact
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, Position, QueueId, TaskId
from ganger.core.state import LEASED, Move, Status, move
from ganger.core.task import NewTask, OnConflict
from ganger.engine.store import EVENTS_TOPIC, Claim, Exchange, Submission
from ganger.engine.stores.mongo import MongoStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock
from ganger.testing.contracts.scene import Scene, plain

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
STORES = 4
LONG = 600_000
"""A lease that lasts however long the machine takes: nobody beats here."""
Story = Callable[[list[MongoStore]], Awaitable[None]]


@pytest.fixture(params=["standalone", "replica set"])
def tell(
    request: pytest.FixtureRequest, mongo_url: Callable[[], str], mongo_replica_url: Callable[[], str]
) -> Callable[[Story], None]:
    """Run a story with several stores, as so many processes would have them: nothing is shared but the database."""
    url = mongo_url() if request.param == "standalone" else mongo_replica_url()
    return lambda story: asyncio.run(_run(url, story))


async def _run(url: str, story: Story) -> None:
    async with open_many(url, STORES) as stores:
        await story(stores)


@asynccontextmanager
async def open_many(url: str, n: int) -> AsyncIterator[list[MongoStore]]:
    async with AsyncExitStack() as stack:
        opening = (MongoStore.open(url, SystemClock(), SystemEntropy()) for _ in range(n))
        stores = await asyncio.gather(*opening)
        for store in stores:
            stack.push_async_callback(store.close)
        yield stores


async def drain(store: MongoStore, node: NodeId, queue: QueueId, most: int) -> Counter[int]:
    """Take and end tasks until there is nothing more; how often each was had."""
    had: Counter[int] = Counter()
    moves: tuple[Move, ...] = ()
    while True:
        done = await store.exchange(Exchange(moves, Claim(node, (queue,), most)))
        assert done.refused == []
        had.update(one.id for one in done.claimed)
        moves = tuple(move(one.id, "succeed", one.fence) for one in done.claimed)
        if not moves and not done.waiting:
            return had


async def read_events(store: MongoStore) -> list[Event]:
    found: list[Event] = []
    while page := await store.events(found[-1].position if found else Position(0), 1_000):
        found += page
    return found


def most_at_once(events: list[Event]) -> int:
    """The largest number of leases that there ever were at one moment."""
    leased: set[int] = set()
    most = 0
    for event in events:
        for entry in event.entries:
            (leased.add if entry.status in LEASED else leased.discard)(entry.task)
        most = max(most, len(leased))
    return most


def test_what_many_submit_and_take_at_once_is_had_once_each_and_told_in_order(tell: Callable[[Story], None]) -> None:
    async def story(stores: list[MongoStore]) -> None:
        first = Scene(stores[0], FakeClock())
        queue = await first.queue()
        nodes = [await first.node(f"n{number}", lease=LONG) for number in range(2)]

        async def submit(store: MongoStore) -> list[TaskId]:
            return [task for _ in range(6) for task in (await store.submit(Submission((plain(queue),) * 5))).ids]

        submitting = asyncio.gather(*(submit(store) for store in stores[:2]))
        had: Counter[int] = Counter()
        pairs = list(zip(stores[2:], nodes, strict=True))
        while not submitting.done() or sum(had.values()) < 60:
            had += sum(await asyncio.gather(*(drain(store, node, queue, 7) for store, node in pairs)), Counter())
        ids = [task for part in await submitting for task in part]
        assert had == Counter(ids)
        events = await read_events(stores[0])
        assert [event.position for event in events] == list(range(1, len(events) + 1)), "no hole"
        told = [entry.task for event in events if event.fact == Fact.SUBMITTED for entry in event.entries]
        assert told == sorted(ids), "tasks are told in the order of their ids"

    tell(story)


def test_one_key_is_one_task_whoever_submits_it_first(tell: Callable[[Story], None]) -> None:
    async def story(stores: list[MongoStore]) -> None:
        queue = await Scene(stores[0], FakeClock()).queue()
        task = NewTask(queue, "command", key="the one", on_conflict=OnConflict.RETURN)
        done = await asyncio.gather(*(store.submit(Submission((task,))) for store in stores for _ in range(3)))
        assert len({one.ids[0] for one in done}) == 1
        assert sum(not one.existing for one in done) == 1

    tell(story)


def test_the_child_of_parents_that_end_at_one_moment_is_released_once(tell: Callable[[Story], None]) -> None:
    async def story(stores: list[MongoStore]) -> None:
        first = Scene(stores[0], FakeClock())
        queue, node = await first.queue(), await first.node(lease=LONG)
        parents = await first.submit(*(plain(queue) for _ in stores))
        child = await first.add(queue, parents=tuple(Edge(parent) for parent in parents))
        held = (await stores[0].exchange(Exchange(claim=Claim(node, (queue,), len(stores))))).claimed
        ending = (
            store.exchange(Exchange((move(one.id, "succeed", one.fence),)))
            for store, one in zip(stores, held, strict=True)
        )
        await asyncio.gather(*ending)
        assert await first.statuses(child) == [Status.QUEUED]
        released = [event for event in await read_events(stores[0]) if event.fact == Fact.READIED]
        assert [entry.task for event in released for entry in event.entries] == [child]

    tell(story)


def test_a_limit_holds_over_all_of_them(tell: Callable[[Story], None]) -> None:
    async def story(stores: list[MongoStore]) -> None:
        first = Scene(stores[0], FakeClock())
        queue = await first.queue(max_active=3)
        await first.submit(*(plain(queue) for _ in range(20)))
        nodes = [await first.node(f"n{number}", lease=LONG) for number in range(len(stores))]
        had = await asyncio.gather(*(drain(store, node, queue, 2) for store, node in zip(stores, nodes, strict=True)))
        assert sum(sum(had, Counter()).values()) == 20
        assert most_at_once(await read_events(stores[0])) <= 3

    tell(story)


def test_what_one_does_wakes_another(tell: Callable[[Story], None]) -> None:
    async def story(stores: list[MongoStore]) -> None:
        queue = await Scene(stores[0], FakeClock()).queue()
        heard = asyncio.Event()
        stop = stores[1].listen((f"queue:{queue}", EVENTS_TOPIC), lambda _: heard.set())
        await asyncio.sleep(0)
        heard.clear()
        await stores[0].submit(Submission((plain(queue),)))
        await asyncio.wait_for(heard.wait(), 60)
        stop()

    tell(story)
