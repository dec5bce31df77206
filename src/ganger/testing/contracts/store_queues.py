"""Queues: made, changed, paused, deleted."""

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import BadInput, Conflict, QueueInUse, QueueNotFound
from ganger.core.event import Fact
from ganger.core.graph import Edge
from ganger.core.ids import QueueId
from ganger.core.queue import Policy, Queue, Sort
from ganger.core.state import Status
from ganger.engine.store import Configure, Query, QueueChange
from ganger.testing.contracts.scene import Scene, StoreContract, ids_of, plain, story


class QueuesContract(StoreContract):
    @story
    async def test_a_queue_is_kept_as_it_was_made(self, scene: Scene) -> None:
        policy = Policy(
            sort=Sort.LIFO, max_active=1, max_per_node=2, max_per_key=3, on_lost="orphan", retry="[]", batch_size=4,
            plugin="p", pin=("a",), ignore=("b", "c"), ephemeral=True, webhooks=("https://a.example/x",),
        )  # fmt: skip
        made = await scene.store.configure(Configure(queue=QueueChange(name="q", policy=policy)))
        assert made.queue is not None
        assert made.queue == Queue(made.queue.id, "q", policy)
        assert (await scene.store.directory()).queues == [made.queue]

    @story
    async def test_two_queues_may_have_one_name(self, scene: Scene) -> None:
        first = await scene.queue("same")
        if scene.store.capabilities.unique_names:
            with pytest.raises(Conflict):
                await scene.queue("same")
        else:
            assert await scene.queue("same") != first

    @story
    async def test_a_queue_is_made_only_if_it_is_absent_where_that_is_asked(self, scene: Scene) -> None:
        first = await scene.queue("there", max_active=1)
        change = QueueChange(name="there", policy=Policy(max_active=2), if_absent=True)
        found = (await scene.store.configure(Configure(queue=change))).queue
        assert found == Queue(first, "there", Policy(max_active=1))
        made = (await scene.store.configure(Configure(queue=change._replace(name="new")))).queue
        assert made is not None
        assert (made.id != first, made.policy.max_active) == (True, 2)
        assert [queue.name for queue in (await scene.store.directory()).queues] == ["there", "new"]

    @story
    async def test_a_new_queue_needs_a_name(self, scene: Scene) -> None:
        with pytest.raises(BadInput):
            await scene.store.configure(Configure(queue=QueueChange()))

    @story
    async def test_a_change_changes_what_it_says(self, scene: Scene) -> None:
        queue = await scene.queue(max_active=5)
        await scene.change_queue(queue, name="other")
        await scene.change_queue(queue, paused_until=Wall(77))
        changed = await scene.change_queue(queue, policy=Policy(max_active=6))
        assert changed == Queue(queue, "other", Policy(max_active=6), Wall(77))
        resumed = await scene.change_queue(queue, paused_until=Wall(0))
        assert resumed == Queue(queue, "other", Policy(max_active=6))
        assert (await scene.store.directory()).queues == [resumed]

    @story
    async def test_a_queue_that_is_not_there_is_not_found(self, scene: Scene) -> None:
        for change in (QueueChange(QueueId(9), name="x"), QueueChange(QueueId(9), delete=True)):
            with pytest.raises(QueueNotFound):
                await scene.store.configure(Configure(queue=change))

    @story
    async def test_a_change_of_the_sort_turns_those_that_wait_round(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        ids = await scene.submit(*(plain(queue) for _ in range(4)), plain(queue, delay=5))
        await scene.change_queue(queue, policy=Policy(sort=Sort.LIFO))
        assert ids_of(await scene.claim(node, queue, most=2)) == [ids[3], ids[2]]
        scene.clock.advance(5)
        assert ids_of(await scene.claim(node, queue)) == [ids[4]]
        await scene.change_queue(queue, policy=Policy())
        assert ids_of(await scene.claim(node, queue, most=2)) == ids[:2]

    @story
    async def test_a_queue_with_open_tasks_is_not_deleted(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        await scene.submit(plain(queue), plain(queue))
        with pytest.raises(QueueInUse):
            await scene.change_queue(queue, delete=True)
        (held,) = await scene.claim(node, queue)
        with pytest.raises(QueueInUse):
            await scene.change_queue(queue, delete=True, drop=True)
        assert len((await scene.store.find(Query(queue=queue, statuses=(Status.QUEUED,)))).tasks) == 1
        await scene.settle("succeed", held)
        await scene.change_queue(queue, delete=True, drop=True)
        assert (await scene.store.directory()).queues == []

    @story
    async def test_children_elsewhere_learn_that_a_queue_was_deleted(self, scene: Scene) -> None:
        doomed, other = await scene.queue("a"), await scene.queue("b")
        _, child = await scene.submit(plain(doomed), plain(other, parents=(Edge(-1),)))
        await scene.change_queue(doomed, delete=True, drop=True)
        assert await scene.statuses(child) == [Status.CANCELLED]
        with pytest.raises(QueueNotFound):
            await scene.add(doomed)

    @story
    async def test_a_deleted_queue_is_no_number_of_another(self, scene: Scene) -> None:
        first = await scene.queue("a")
        await scene.change_queue(first, delete=True)
        assert await scene.queue("b") != first

    @story
    async def test_results_that_have_nowhere_to_go_do_not_stop_a_settle(self, scene: Scene) -> None:
        after, node = await scene.queue("after"), await scene.node()
        before = await scene.queue("before", becomes=after)
        task = await scene.add(before)
        await scene.change_queue(after, delete=True)
        await scene.finish(node, "succeed", task)
        assert await scene.statuses(task) == [Status.SUCCEEDED]

    @story
    async def test_changes_of_queues_are_told(self, scene: Scene) -> None:
        queue = await scene.queue("named")
        await scene.change_queue(queue, delete=True)
        told = [(event.fact, event.queue, event.subject, event.entries) for event in await scene.events()]
        assert told == [(Fact.QUEUE_CHANGED, queue, "named", ()), (Fact.QUEUE_REMOVED, queue, "named", ())]
