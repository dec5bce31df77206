"""A question over many rows has the same answer whether the server is asked or the rows at hand."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ganger.core.clock import Moment, Wall
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lane import Lane
from ganger.core.lease import Renewal
from ganger.core.state import move
from ganger.core.task import Kind
from ganger.databases.mongo import Choice, Draft, ObjectId, Table
from ganger.databases.timekeeping import HandedTime
from ganger.engine.stores.mongo import MongoStore, choices
from ganger.engine.stores.mongo.tables import ATTEMPTS, CHUNKS, DATA, EVENTS, LINKS, NODES, QUEUES, TASKS
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.contracts.scene import Scene, append, plain, put

pytestmark = pytest.mark.slow
LATER = 10**9
TABLES: tuple[Table[Any], ...] = (TASKS, QUEUES, NODES, LINKS, DATA, CHUNKS, ATTEMPTS, EVENTS)


async def _live(scene: Scene) -> None:
    """A little of everything."""
    queue, other = await scene.queue(max_per_key=1), await scene.queue("other", sort="lifo")
    node, gone = await scene.node(), await scene.node("gone")
    first, *_ = await scene.submit(*(plain(queue, priority=n % 3, key=f"k{n}") for n in range(6)))
    await scene.submit(*(plain(queue, limit_key="l") for _ in range(3)), plain(other, delay=LATER))
    await scene.add(other, requires=("gpu",))
    await scene.add(queue, parents=(Edge(first),))
    group = await scene.add(other, kind=Kind.GROUP, open_group=True)
    await scene.add(other, group=group)
    held = await scene.take(node, first)
    touched = await scene.take(node, await scene.add(queue, renewal=Renewal.TOUCH, ttr=5_000))
    await scene.write(put(held.id, held.fence, "d", b"v"), append(held.id, held.fence, 0, b"out"))
    await scene.take(gone, await scene.add(other))
    await scene.leave(gone)
    await scene.apply(move(held.id, "succeed", held.fence))
    assert touched.until is not None


def _all() -> list[Choice[Any]]:
    """Each choice, about what is there and about what is not."""
    one, two = QueueId(1), QueueId(2)
    lanes = [Lane("command"), Lane("command", ("gpu",))]
    return [
        *(choices.ready(queue) for queue in (one, two)),
        *(choices.ready(queue, lanes[:1]) for queue in (one, two)),
        choices.ready(two, lanes),
        *(choices.delayed(queues, due) for queues in (None, [one], [two]) for due in (None, Wall(1), Wall(1 << 60))),
        *(choices.limited(one, "l", parked) for parked in (None, True, False)),
        choices.any_limited(one), choices.active_of_key(one, "l"), choices.active_in(ObjectId()),
        *(choices.active_of_node(NodeId(node), queue) for node in (1, 2) for queue in (None, one)),
        choices.active_on("n"), choices.active_on("gone"), choices.active_in(ObjectId(), "n"),
        choices.active_of_nodes([NodeId(1), NodeId(2)]),
        *(choices.touched(until) for until in (None, Moment(0), Moment(1 << 60))),
        *(choices.touched_after(now) for now in (Moment(0), Moment(1 << 60))),
        choices.of_queue(one), choices.open_of_queue(one), choices.open_of_queue(two),
        choices.with_keys(["k1", "k4", "none"]), choices.ended(Wall(1 << 60)), choices.ended(Wall(0)),
        choices.prunable(Wall(1 << 60), [TaskId(12)], foreign=False), choices.prunable(Wall(1 << 60), [], foreign=True),
        choices.open_groups(), choices.with_output(),
        choices.old_events(Wall(1 << 60)), choices.above([TaskId(n) for n in range(20)]), choices.below([TaskId(1)]),
        choices.data_of(TaskId(1)), choices.chunks_of(TaskId(1)), choices.attempts_of(TaskId(1)),
        choices.here(), choices.here("n"), choices.here("gone"), choices.gone(),
        choices.named_queue("other"), choices.all_queues(),
    ]  # fmt: skip


async def _compare(url: str) -> list[int]:
    clock = FakeClock()
    store = await MongoStore.open(url, clock, SeededEntropy(1), timekeeper=HandedTime(clock))
    try:
        await _live(Scene(store, clock))
        database = store.database.handle
        written = Draft(database, {})
        for table in TABLES:
            for document in await database[table.name].find().to_list():
                written.put(table, written.learn(table, document))
        return [await _answer(choice, Draft(database, {}), written) for choice in _all()]
    finally:
        await store.close()


async def _answer(choice: Choice[Any], fresh: Draft, written: Draft) -> int:
    asked, at_hand = await fresh.select(choice), await written.select(choice)
    if choice.rank is None:
        asked, at_hand = sorted(asked, key=str), sorted(at_hand, key=str)
    assert asked == at_hand, choice.where
    assert await fresh.count(choice) == await written.count(choice) == len(asked)
    assert await fresh.select(choice, 1) == await written.select(choice, 1) or choice.rank is None
    return len(asked)


def test_the_server_and_the_rows_at_hand_say_the_same(mongo_url: Callable[[], str]) -> None:
    found = asyncio.run(_compare(mongo_url()))
    assert sum(count > 0 for count in found) > 25, "most of them are about something"
