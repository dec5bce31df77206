"""Limits over many nodes on one PostgreSQL database: never one too many, and nobody is woken in vain."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count

import pytest

from ganger.core.ids import NodeId, QueueId
from ganger.core.state import Move, Status, move
from ganger.engine.store import QUEUE_TOPIC, Claim, Exchange
from ganger.engine.stores.postgres import PostgresStore
from ganger.testing.contracts.scene import plain
from tests.contract.test_postgres_together import most_at_once, read_events, run, scene

CLAIMS = int(os.environ.get("GANGER_TEST_CLAIMS", "400"))
NODES = 8
LIMIT = 3
PATIENCE = 60.0
LONG = 3_600_000
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + CLAIMS // 10)]


def _ring(event: asyncio.Event, _topic: str) -> None:
    event.set()


async def _drain_awake(store: PostgresStore, node: NodeId, queue: QueueId, most: int) -> Counter[int]:
    """Take and end tasks as a node does, which stands in line while the queue is full; how often each was had.

    Now and then it takes no more in the step that ends what it had, so that all the others come for the free room.
    """
    had: Counter[int] = Counter()
    moves: tuple[Move, ...] = ()
    freed = asyncio.Event()
    store.listen((QUEUE_TOPIC.format(queue),), partial(_ring, freed))
    for turn in count():
        freed.clear()
        if moves and turn % 8 == 0:
            assert (await store.exchange(Exchange(moves))).refused == []
            moves = ()
        done = await store.exchange(Exchange(moves, Claim(node, (queue,), most)))
        assert done.refused == []
        had.update(one.id for one in done.claimed)
        moves = tuple(move(one.id, "succeed", one.fence) for one in done.claimed)
        if not moves and not done.waiting:
            break
        if not moves:
            await freed.wait()
    return had


def test_eight_nodes_with_a_limit_of_three_never_have_four(postgres_url: Callable[[], str]) -> None:
    async def tell(stores: list[PostgresStore]) -> None:
        first = scene(stores[0])
        queue = await first.queue(max_active=LIMIT)
        nodes = [await first.node(f"n{number}", lease=LONG) for number in range(NODES)]
        tasks = await first.submit(*[plain(queue)] * CLAIMS)
        had = await asyncio.gather(
            *(_drain_awake(store, node, queue, 2) for store, node in zip(stores, nodes, strict=True))
        )
        assert sum(had, Counter()) == Counter(tasks)
        assert most_at_once(await read_events(stores[0])) == LIMIT

    run(postgres_url(), tell, NODES)


def test_with_a_limit_of_one_hardly_anybody_is_woken_between_two_tasks(postgres_url: Callable[[], str]) -> None:
    """Whoever settles and takes the next in one step leaves no room to others; when it stops, they are told."""
    steps = max(50, CLAIMS // 10)

    async def tell(stores: list[PostgresStore]) -> None:
        first = scene(stores[0])
        queue, other, node = await first.queue(max_active=1), await first.queue("other"), await first.node(lease=LONG)
        await first.submit(*[plain(queue)] * (steps + 1))
        woken: Counter[str] = Counter()
        some = asyncio.Event()

        def hear(topic: str) -> None:
            woken[topic] += 1
            some.set()

        async def until(topic: str) -> None:
            async with asyncio.timeout(PATIENCE):
                while not woken[topic]:
                    await some.wait()
                    some.clear()

        topics = QUEUE_TOPIC.format(queue), QUEUE_TOPIC.format(other)
        stores[1].listen(topics, hear)
        (held,) = (await stores[0].exchange(Exchange(claim=Claim(node, (queue,), 1)))).claimed
        await first.submit(plain(other))
        await until(topics[1])
        woken.clear()
        for _ in range(steps):
            settled = Exchange((move(held.id, "succeed", held.fence),), Claim(node, (queue,), 1))
            (held,) = (await stores[0].exchange(settled)).claimed
        await first.submit(plain(other))
        await until(topics[1])
        # A store looks for itself from time to time, and may then wake those who wait without a reason.
        assert woken[topics[0]] <= steps // 10
        await stores[0].exchange(Exchange((move(held.id, "succeed", held.fence),)))
        await until(topics[0])

    run(postgres_url(), tell, 2)


def test_with_a_limit_of_one_the_next_node_goes_on_at_once(postgres_url: Callable[[], str]) -> None:
    """Two nodes take turns: each settles without taking another, and the other is woken by that."""
    turns = 40

    async def tell(stores: list[PostgresStore]) -> None:
        first = scene(stores[0])
        queue = await first.queue(max_active=1)
        nodes = [await first.node(f"n{number}", lease=LONG) for number in range(2)]
        await first.submit(*[plain(queue)] * turns)
        woken = [asyncio.Event(), asyncio.Event()]
        for store, event in zip(stores, woken, strict=True):
            store.listen((QUEUE_TOPIC.format(queue),), partial(_ring, event))
        for turn in range(turns):
            store, node, event = stores[turn % 2], nodes[turn % 2], woken[turn % 2]
            while not (claimed := (await store.exchange(Exchange(claim=Claim(node, (queue,), 1)))).claimed):
                await asyncio.wait_for(event.wait(), PATIENCE)
                event.clear()
            await store.exchange(Exchange((move(claimed[0].id, "succeed", claimed[0].fence),)))
        (counts,), _ = await stores[0].counts()
        assert counts.by_status == {Status.SUCCEEDED: turns}

    run(postgres_url(), tell, 2)
