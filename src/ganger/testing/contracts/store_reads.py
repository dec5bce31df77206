"""What anybody may ask of a store, and what listeners are told."""

import asyncio

import pytest

from ganger.core.audit import START, Act, verify
from ganger.core.errors import DuplicateKey, TaskNotFound
from ganger.core.event import Event, Fact
from ganger.core.graph import Edge, On
from ganger.core.ids import Position, TaskId
from ganger.core.node import Registration
from ganger.core.state import Status, move
from ganger.core.task import Task
from ganger.engine.store import (
    EVENTS_TOPIC,
    NODES_TOPIC,
    QUEUE_TOPIC,
    QUEUES_TOPIC,
    Change,
    Configure,
    Edit,
    Edits,
    Exchange,
    NodeChange,
    Query,
    QueueChange,
    Submission,
)
from ganger.testing.contracts.scene import Scene, StoreContract, plain, put, story


class ReadsContract(StoreContract):
    @story
    async def test_tasks_come_in_the_order_asked_and_none_for_none(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, two = await scene.submit(plain(queue), plain(queue))
        found = await scene.store.tasks([two, TaskId(two + 9), one, two])
        assert [None if task is None else task.id for task in found] == [two, None, one, two]
        assert await scene.store.tasks([]) == []

    @story
    async def test_each_filter_of_a_query_narrows_it(self, scene: Scene) -> None:
        one, two, node = await scene.queue("a", batch_size=2), await scene.queue("b"), await scene.node()
        ids = await scene.submit(
            plain(one, key="k"), plain(one, "shell"), plain(two, parents=(Edge(-1),)), plain(two), plain(one)
        )
        await scene.take(node, ids[3])
        batch = (await scene.task(ids[4])).batch
        for query, expected in (
            (Query(), ids),
            (Query(queue=one), [ids[0], ids[1], ids[4]]),
            (Query(statuses=(Status.BLOCKED, Status.CLAIMED)), [ids[2], ids[3]]),
            (Query(queue=one, statuses=(Status.QUEUED,)), [ids[0], ids[1], ids[4]]),
            (Query(queue=one, statuses=(Status.BLOCKED,)), []),
            (Query(kind="shell"), [ids[1]]),
            (Query(batch=batch), [ids[4]]),
            (Query(key="k"), [ids[0]]),
            (Query(key="k", queue=two), []),
            (Query(holder=node), [ids[3]]),
            (Query(parent=ids[0]), [ids[2]]),
        ):
            assert [task.id for task in await walk(scene, query)] == expected, query

    @story
    async def test_a_walk_by_cursor_sees_each_task_once_both_ways(self, scene: Scene) -> None:
        queue = await scene.queue()
        ids = await scene.submit(*(plain(queue) for _ in range(25)))
        for most in (1, 7, 25, 26):
            assert [task.id for task in await walk(scene, Query(most=most))] == ids
            newest = await walk(scene, Query(queue=queue, most=most, newest_first=True))
            assert [task.id for task in newest] == ids[::-1]
        middle = (await scene.task(ids[10])).position
        assert [task.id for task in await walk(scene, Query(after=middle))] == ids[11:]
        assert [task.id for task in await walk(scene, Query(after=middle, newest_first=True))] == ids[:10][::-1]

    @story
    async def test_a_walk_misses_nothing_that_comes_meanwhile(self, scene: Scene) -> None:
        queue = await scene.queue()
        ids = await scene.submit(plain(queue), plain(queue))
        page = await scene.store.find(Query(most=1))
        await scene.edit(ids[0], remove=True)
        late = await scene.add(queue)
        assert page.next is not None
        rest = await walk(scene, Query(most=1, after=page.next))
        assert [task.id for task in rest] == [ids[1], late]

    @story
    async def test_a_page_names_the_parents_of_its_tasks_if_asked(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, two, below = await scene.submit(
            plain(queue), plain(queue), plain(queue, parents=(Edge(-2, On.FINISHED), Edge(-1)))
        )
        page = await scene.store.find(Query(with_parents=True))
        assert page.parents == ((), (), (Edge(one, On.SUCCESS), Edge(two, On.FINISHED)))
        assert (await scene.store.find(Query(parent=one, with_parents=True))).tasks[0].id == below
        assert (await scene.store.find(Query())).parents == ()

    @story
    async def test_a_look_shows_the_family(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, two, middle, below = await scene.submit(
            plain(queue),
            plain(queue),
            plain(queue, parents=(Edge(-1), Edge(-2, On.FAILED))),
            plain(queue, parents=(Edge(-3),)),
        )
        look = await scene.store.look(middle)
        assert (look.task.id, sorted(look.family.parents)) == (middle, [(one, On.SUCCESS), (two, On.FAILED)])
        assert list(look.family.children) == [(below, On.SUCCESS)]
        with pytest.raises(TaskNotFound):
            await scene.store.look(TaskId(below + 9))

    @story
    async def test_a_look_shows_the_newest_attempts(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue)
        for _ in range(4):
            await scene.finish(node, "retry", task)
        assert [attempt.fence for attempt in (await scene.store.look(task, most=2)).attempts] == [3, 4]

    @story
    async def test_a_value_is_read_in_parts(self, scene: Scene) -> None:
        queue = await scene.queue()
        task = await scene.add(queue, spec=b"0123456789")
        await scene.write(put(task, 0, "k", bytes(range(200)) * 10))
        part = await scene.store.value(task, "k", start=1_990, most=100)
        assert (part.body, part.size, part.start) == (bytes(range(190, 200)), 2_000, 1_990)
        assert (await scene.store.value(task, "spec", start=3, most=4)).body == b"3456"
        nothing = await scene.store.value(task, "unknown")
        assert (nothing.body, nothing.blob, nothing.size) == (None, None, 0)
        for key in ("k", "spec", "out:stdout"):
            with pytest.raises(TaskNotFound):
                await scene.store.value(TaskId(task + 9), key)

    @story
    async def test_events_are_read_behind_a_position_in_pages(self, scene: Scene) -> None:
        queue = await scene.queue()
        for _ in range(5):
            await scene.add(queue)
        whole = await scene.events()
        positions = [event.position for event in whole]
        assert positions == sorted(set(positions))
        assert positions[0] > 0
        paged: list[Event] = []
        while page := await scene.store.events(paged[-1].position if paged else Position(0), 2):
            assert len(page) <= 2
            paged += page
        assert paged == whole
        assert {event.at for event in whole} == {scene.clock.wall()}

    @story
    async def test_the_directory_knows_the_newest_event(self, scene: Scene) -> None:
        assert (await scene.store.directory()).last_event == 0
        await scene.add(await scene.queue())
        last = (await scene.store.directory()).last_event
        assert last == (await scene.events())[-1].position
        scene.clock.advance(1_000)
        await scene.prune(scene.clock.wall())
        assert ((await scene.store.directory()).last_event, await scene.store.events(last)) == (last, [])

    @story
    async def test_tallies_count_every_task_of_every_fact(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        ids = await scene.submit(*(plain(queue) for _ in range(5)))
        await scene.finish(node, "succeed", *ids[:3])
        await scene.finish(node, "release", ids[3])
        await scene.make("cancel", ids[4])
        _, told = await scene.store.counts()
        expected = {Fact.SUBMITTED: 5, Fact.CLAIMED: 4, Fact.SETTLED: 3, Fact.RELEASED: 1, Fact.CANCELLED: 1}
        assert {fact: told[queue].get(fact, 0) for fact in expected} == expected

    @story
    async def test_a_queue_without_tasks_is_counted_too(self, scene: Scene) -> None:
        queue = await scene.queue()
        ((counts,), told) = await scene.store.counts()
        assert (counts.queue, counts.by_status, counts.total, queue in told) == (queue, {}, 0, True)

    @story
    async def test_a_store_keeps_its_tag(self, scene: Scene) -> None:
        tag = (await scene.store.directory()).tag
        assert 0 <= tag < 1 << 63
        assert (await scene.store.directory()).tag == tag


class AuditContract(StoreContract):
    @story
    async def test_every_request_that_carries_an_act_is_one_line_of_an_unbroken_chain(self, scene: Scene) -> None:
        queue = await scene.queue()
        (task,) = (await scene.store.submit(Submission((plain(queue),), act=act("submit")))).ids
        await scene.store.edit(Edits((Edit(task, change=Change(priority=1)),), act=act("edit")))
        await scene.store.exchange(Exchange((move(task, "cancel"), move(task, "cancel")), act=act("cancel")))
        await scene.store.configure(Configure(queue=QueueChange(queue, name="x"), act=act("rename")))
        joined = NodeChange(register=Registration("n", "t"))
        await scene.store.configure(Configure(node=joined, act=act("join")))

        lines = await scene.store.audit(Position(0))
        assert [line.action for line in lines] == ["submit", "edit", "cancel", "rename", "join"]
        assert {(line.who, line.at) for line in lines} == {("ada", scene.clock.wall())}
        assert verify(lines)[0] == 5

    @story
    async def test_a_request_that_failed_leaves_no_line_and_no_gap(self, scene: Scene) -> None:
        queue = await scene.queue()
        keyed = Submission((plain(queue, key="k"),), act=act("submit"))
        await scene.store.submit(keyed)
        with pytest.raises(DuplicateKey):
            await scene.store.submit(keyed)
        await scene.store.submit(Submission((), act=act("nothing")))
        lines = await scene.store.audit(Position(0))
        assert [line.action for line in lines] == ["submit", "nothing"]
        assert verify(lines)[0] == 2

    @story
    async def test_the_log_is_read_in_pages(self, scene: Scene) -> None:
        for number in range(5):
            await scene.store.submit(Submission((), act=act(str(number))))
        whole = await scene.store.audit(Position(0))
        first = await scene.store.audit(Position(0), 2)
        rest = await scene.store.audit(first[-1].position, 100)
        assert first + rest == whole
        count, last = verify(first)
        assert verify(rest, last, count)[0] == 3
        assert (await scene.store.audit(whole[-1].position), verify([], START)) == ([], (0, START))


class ListenContract(StoreContract):
    @story
    async def test_listeners_are_told_what_they_asked_for(self, scene: Scene) -> None:
        queue, other = await scene.queue("a"), await scene.queue("b")
        heard = Ear(scene, QUEUE_TOPIC.format(queue))
        await scene.add(other)
        await scene.add(queue)
        await heard.wait_for(QUEUE_TOPIC.format(queue))
        assert set(heard.topics) == {QUEUE_TOPIC.format(queue)}
        heard.stop()

    @story
    async def test_a_task_that_becomes_ready_wakes_its_queue(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, _ = await scene.submit(plain(queue), plain(queue, parents=(Edge(-1),)))
        held = await scene.take(node, parent)
        heard = Ear(scene, QUEUE_TOPIC.format(queue))
        await scene.settle("succeed", held)
        await heard.wait_for(QUEUE_TOPIC.format(queue))
        heard.stop()

    @story
    async def test_a_place_that_is_freed_under_a_limit_wakes_the_queue(self, scene: Scene) -> None:
        queue, node = await scene.queue(max_active=1), await scene.node()
        await scene.submit(plain(queue), plain(queue))
        (held,) = await scene.claim(node, queue)
        heard = Ear(scene, QUEUE_TOPIC.format(queue))
        await scene.settle("succeed", held)
        await heard.wait_for(QUEUE_TOPIC.format(queue))
        heard.stop()

    @story
    async def test_a_resumed_queue_and_an_earlier_time_wake_too(self, scene: Scene) -> None:
        queue = await scene.queue()
        task = await scene.add(queue, delay=500)
        heard = Ear(scene, QUEUE_TOPIC.format(queue))
        await scene.edit(task, change=Change(due=scene.clock.wall()))
        await heard.wait_for(QUEUE_TOPIC.format(queue))
        heard.topics.clear()
        await scene.change_queue(queue, paused_until=0)
        await heard.wait_for(QUEUE_TOPIC.format(queue))
        heard.stop()

    @story
    async def test_events_queues_and_nodes_have_topics_of_their_own(self, scene: Scene) -> None:
        heard = Ear(scene, EVENTS_TOPIC, QUEUES_TOPIC, NODES_TOPIC)
        await scene.queue()
        await heard.wait_for(QUEUES_TOPIC)
        await heard.wait_for(EVENTS_TOPIC)
        await scene.node()
        await heard.wait_for(NODES_TOPIC)
        heard.stop()

    @story
    async def test_who_stops_listening_is_told_nothing_more(self, scene: Scene) -> None:
        queue = await scene.queue()
        gone, stays = Ear(scene, EVENTS_TOPIC), Ear(scene, EVENTS_TOPIC)
        gone.stop()
        gone.stop()
        await scene.add(queue)
        await stays.wait_for(EVENTS_TOPIC)
        assert gone.topics == []
        stays.stop()


class Ear:
    """Hears what a store tells under some topics."""

    def __init__(self, scene: Scene, *topics: str) -> None:
        self.topics: list[str] = []
        self._heard = asyncio.Event()
        self.stop = scene.store.listen(topics, self._hear)

    def _hear(self, topic: str) -> None:
        self.topics.append(topic)
        self._heard.set()

    async def wait_for(self, topic: str, within: float = 5.0) -> None:
        async with asyncio.timeout(within):
            while topic not in self.topics:
                self._heard.clear()
                await self._heard.wait()


async def walk(scene: Scene, query: Query) -> list[Task]:
    """Every task that a query finds, page by page."""
    found: list[Task] = []
    while True:
        page = await scene.store.find(query)
        assert len(page.tasks) <= query.most
        found += page.tasks
        if page.next is None:
            return found
        query = query._replace(after=page.next)


def act(action: str) -> Act:
    return Act("ada", action, '{"why":"because"}')
