"""How a store hands out tasks: the order, the lanes, the leases."""

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import NodeGone
from ganger.core.event import Fact
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lease import Renewal
from ganger.core.queue import Sort
from ganger.core.state import Status, move
from ganger.engine.store import Claim, Exchange
from ganger.testing.contracts.scene import MINUTE, Scene, StoreContract, ids_of, plain, story


class ClaimContract(StoreContract):
    @story
    async def test_the_best_priority_comes_first_and_then_the_oldest(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        worst, first, second, best = await scene.submit(*(plain(queue, priority=each) for each in (9, 5, 5, 0)))
        assert ids_of(await scene.claim(node, queue, most=10)) == [best, first, second, worst]

    @story
    async def test_a_lifo_queue_gives_the_newest_of_a_priority_first(self, scene: Scene) -> None:
        queue, node = await scene.queue(sort=Sort.LIFO), await scene.node()
        old, new, urgent = await scene.submit(plain(queue), plain(queue), plain(queue, priority=1))
        assert ids_of(await scene.claim(node, queue, most=10)) == [urgent, new, old]

    @story
    async def test_several_queues_are_merged_by_their_heads(self, scene: Scene) -> None:
        one, two, node = await scene.queue("a"), await scene.queue("b"), await scene.node()
        ids = await scene.submit(
            *(plain(queue, priority=p) for queue, p in ((one, 3), (two, 1), (one, 2), (two, 3), (one, 3)))
        )
        assert ids_of(await scene.claim(node, two, one, most=3)) == [ids[1], ids[2], ids[0]]
        assert ids_of(await scene.claim(node, two, one, most=3)) == [ids[3], ids[4]]

    @story
    async def test_a_claim_gives_no_more_than_asked_and_nothing_twice(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        ids = await scene.submit(*(plain(queue) for _ in range(5)))
        given = [ids_of(await scene.claim(node, queue, most=2)) for _ in range(4)]
        assert given == [ids[:2], ids[2:4], ids[4:], []]

    @story
    async def test_a_claim_of_a_queue_that_is_not_there_gives_nothing(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue)
        assert ids_of(await scene.claim(node, QueueId(queue + 99), queue, queue)) == [task]
        assert await scene.claim(node) == []

    @story
    async def test_each_lease_has_the_next_fence(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        await scene.add(queue)
        fences = []
        for _ in range(3):
            (held,) = await scene.claim(node, queue)
            fences.append(held.fence)
            await scene.settle("release", held)
        assert fences == [1, 2, 3]

    @story
    async def test_a_claim_shows_in_the_task(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        waits, runs = await scene.submit(plain(queue), plain(queue))
        await scene.take(node, waits)
        scene.clock.advance(5)
        held = await scene.take(node, runs, start=True)

        one, two = await scene.task(waits), await scene.task(runs)
        assert (one.status, one.holder, one.fence, one.reserves, one.started) == (Status.CLAIMED, node, 1, 1, None)
        assert (two.status, two.modified, held.status) == (Status.RUNNING, scene.clock.wall(), Status.RUNNING)

    @story
    async def test_a_claim_carries_what_the_holder_needs(self, scene: Scene) -> None:
        queue, node = await scene.queue(retry="[1]"), await scene.node()
        await scene.submit(plain(queue, "shell", spec=b"x", timeout=4, priority=6), plain(queue, retry="[2]"))
        one, two = await scene.claim(node, queue, most=2)

        assert (one.queue, one.kind, one.spec, one.timeout, one.priority) == (queue, "shell", b"x", 4, 6)
        assert (one.holder, one.until, one.attempts, one.crashes, one.retry) == (node, None, 0, 0, "[1]")
        assert two.retry == "[2]"

    @story
    async def test_due_tasks_are_promoted_by_the_claim_itself(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        await scene.add(queue, delay=10)
        scene.clock.advance(9)
        assert await scene.claim(node, queue) == []
        scene.clock.advance(1)
        (held,) = await scene.claim(node, queue)
        assert await scene.facts(held.id) == [Fact.SUBMITTED, Fact.READIED, Fact.CLAIMED]

    @story
    async def test_an_empty_claim_says_when_the_first_task_is_due(self, scene: Scene) -> None:
        one, two, node = await scene.queue("a"), await scene.queue("b"), await scene.node()
        await scene.submit(plain(one, delay=50), plain(one, delay=40), plain(two, delay=10))
        asked = await scene.ask(node, one)
        assert (asked.claimed, asked.next_due, asked.waiting) == ([], scene.clock.wall() + 40, False)
        await scene.add(one)
        assert (await scene.ask(node, one)).next_due is None

    @story
    async def test_a_paused_queue_gives_nothing_until_its_pause_ends(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue)
        await scene.change_queue(queue, paused_until=Wall(scene.clock.wall() + 100))

        asked = await scene.ask(node, queue)
        assert (asked.claimed, asked.next_due) == ([], scene.clock.wall() + 100)
        assert await scene.claim(node, ids=(task,)) == []
        scene.clock.advance(100)
        assert ids_of(await scene.claim(node, queue)) == [task]

    @story
    async def test_a_resumed_queue_gives_again(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue)
        await scene.change_queue(queue, paused_until=Wall(scene.clock.wall() + MINUTE))
        await scene.change_queue(queue, paused_until=Wall(0))
        assert ids_of(await scene.claim(node, queue)) == [task]

    @story
    async def test_named_tasks_are_given_if_they_are_ready_and_left_out_otherwise(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        ready, delayed, also, taken, other = await scene.submit(
            plain(queue, priority=9), plain(queue, delay=5), plain(queue), plain(queue), plain(queue, priority=0)
        )
        await scene.take(node, taken)
        named = await scene.claim(node, ids=(ready, delayed, TaskId(other + 99), taken, also, ready))
        assert sorted(ids_of(named)) == [ready, also]
        assert await scene.statuses(other) == [Status.QUEUED]

    @story
    async def test_a_node_gets_only_kinds_that_it_runs_and_labels_that_it_has(self, scene: Scene) -> None:
        queue = await scene.queue()
        shell = await scene.node("a", kinds=("shell",))
        gpu = await scene.node("b", labels=("gpu", "eu"))
        gpu_task, shell_task, both = await scene.submit(
            plain(queue, requires=("gpu",)), plain(queue, "shell"), plain(queue, "shell", requires=("us",))
        )
        assert await scene.claim(gpu, ids=(both,)) == []
        assert ids_of(await scene.claim(shell, queue, most=10)) == [shell_task]
        assert ids_of(await scene.claim(gpu, queue, most=10)) == [gpu_task]

    @story
    async def test_a_node_gets_nothing_of_queues_that_it_does_not_take(self, scene: Scene) -> None:
        one, two = await scene.queue("a"), await scene.queue("b")
        node = await scene.node(queues=("b",))
        _, task = await scene.submit(plain(one), plain(two))
        assert ids_of(await scene.claim(node, one, two, most=10)) == [task]

    @story
    async def test_a_queue_gives_to_its_pinned_nodes_or_to_all_but_the_ignored(self, scene: Scene) -> None:
        pinned, ignoring = await scene.queue("a", pin=("x",), ignore=("x",)), await scene.queue("b", ignore=("x",))
        x, y = await scene.node("x"), await scene.node("y")
        one, two = await scene.submit(plain(pinned), plain(ignoring))
        assert ids_of(await scene.claim(y, pinned, ignoring, most=10)) == [two]
        assert ids_of(await scene.claim(x, pinned, ignoring, most=10)) == [one]

    @story
    async def test_a_task_avoids_the_holder_it_failed_on_while_another_is_there(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, two = await scene.node("a", lease=MINUTE), await scene.node("b", lease=MINUTE)
        task = await scene.add(queue)
        behind = await scene.add(queue)
        await scene.settle("retry", await scene.take(one, task), avoid=30_000)

        assert (await scene.task(task)).avoid is not None
        assert ids_of(await scene.claim(one, queue, most=10)) == [behind]
        assert ids_of(await scene.claim(two, queue)) == [task]
        assert (await scene.task(task)).avoid is None

    @story
    async def test_an_avoided_holder_may_take_the_task_when_the_time_is_over(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, _ = await scene.node("a", lease=MINUTE), await scene.node("b", lease=MINUTE)
        task = await scene.add(queue)
        await scene.settle("release", await scene.take(one, task), avoid=30_000)

        asked = await scene.ask(one, queue)
        assert asked.claimed == []
        assert asked.next_due is not None
        assert scene.clock.wall() + 30_000 <= asked.next_due <= scene.clock.wall() + 35_000
        scene.clock.advance(35_000)
        assert ids_of(await scene.claim(one, queue)) == [task]

    @story
    async def test_a_holder_that_is_alone_is_not_avoided(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, _ = await scene.node("a"), await scene.node("b", queues=("other",))
        task = await scene.add(queue)
        await scene.settle("retry", await scene.take(one, task), avoid=30_000)
        assert ids_of(await scene.claim(one, queue)) == [task]

    @story
    async def test_only_the_avoided_holder_is_told_when_its_time_is_over(self, scene: Scene) -> None:
        queue = await scene.queue(max_active=1)
        one, two = await scene.node("a", lease=MINUTE), await scene.node("b", lease=MINUTE)
        task, behind = await scene.add(queue), await scene.add(queue)
        await scene.settle("retry", await scene.take(one, task), avoid=30_000)
        await scene.take(one, behind)
        assert (await scene.ask(two, queue)).next_due is None
        assert (await scene.ask(one, queue)).next_due is not None

    @story
    async def test_a_task_that_was_put_aside_avoids_nobody_when_it_is_kicked(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, _ = await scene.node("a"), await scene.node("b")
        task = await scene.add(queue)
        await scene.settle("bury", await scene.take(one, task), avoid=30_000)
        await scene.make("kick", task)
        assert (await scene.task(task)).avoid is None
        assert ids_of(await scene.claim(one, queue)) == [task]

    @story
    async def test_a_node_is_avoided_by_its_name_also_after_it_came_back(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, _ = await scene.node("a"), await scene.node("b")
        task = await scene.add(queue)
        await scene.settle("retry", await scene.take(one, task), avoid=30_000)
        await scene.leave(one)
        assert await scene.claim(await scene.node("a"), queue) == []

    @story
    async def test_a_touched_lease_lasts_as_long_as_the_task_or_the_claim_says(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        own, given = await scene.submit(
            plain(queue, renewal=Renewal.TOUCH, ttr=2_000), plain(queue, renewal=Renewal.TOUCH)
        )
        held = await scene.claim(node, queue, most=2, length=7_000)
        now = scene.clock.now()
        assert [one.until for one in held] == [now + 2_000, now + 7_000]
        assert [(await scene.task(task)).until for task in (own, given)] == [now + 2_000, now + 7_000]

    @story
    async def test_only_a_live_node_that_does_not_drain_may_claim(self, scene: Scene) -> None:
        queue = await scene.queue()
        await scene.add(queue)
        silent, drained, left = await scene.node("a", lease=1_000), await scene.node("b"), await scene.node("c")
        await scene.drain(drained)
        await scene.leave(left)
        scene.clock.advance(1_000)
        for node in (silent, drained, left, NodeId(999)):
            with pytest.raises(NodeGone):
                await scene.claim(node, queue)

    @story
    async def test_a_refused_claim_takes_its_moves_back(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        await scene.add(queue)
        (held,) = await scene.claim(node, queue)
        await scene.drain(node)
        with pytest.raises(NodeGone):
            await scene.store.exchange(Exchange((move(held.id, "succeed", held.fence),), Claim(node, (queue,))))
        assert await scene.statuses(held.id) == [Status.CLAIMED]
        await scene.settle("succeed", held)

    @story
    async def test_a_claim_is_one_event_for_each_queue(self, scene: Scene) -> None:
        one, two, node = await scene.queue("a"), await scene.queue("b"), await scene.node()
        ids = await scene.submit(plain(one), plain(two), plain(one), plain(two))
        await scene.claim(node, one, two, most=10)

        told = {event.queue: event for event in await scene.events() if event.fact == Fact.CLAIMED}
        assert len([event for event in await scene.events() if event.fact == Fact.CLAIMED]) == 2
        assert [(entry.task, entry.fence) for entry in told[one].entries] == [(ids[0], 1), (ids[2], 1)]
        assert {event.holder for event in told.values()} == {node}

    @story
    async def test_a_thousand_tasks_are_drained_one_by_one_in_order(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        ids = await scene.submit(*(plain(queue) for _ in range(1_000)))
        drained = []
        while held := await scene.claim(node, queue, most=50):
            drained += ids_of(held)
        assert drained == ids
