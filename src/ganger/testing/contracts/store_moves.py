"""How a store applies moves: the table, the fences, the counters, the attempts."""

from collections.abc import Awaitable, Callable
from typing import Final

import pytest

from ganger.core.errors import GangerError, StaleLease, TaskNotFound, WrongStatus
from ganger.core.event import Fact
from ganger.core.graph import Edge
from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.state import RULES, Counter, Status, Verdict, is_final, move
from ganger.core.task import Task
from ganger.engine.store import Claim, Exchange
from ganger.testing.contracts.scene import Scene, StoreContract, ids_of, plain, story

Stage = Callable[[Scene, QueueId, NodeId], Awaitable[TaskId]]
_INNER: Final = frozenset({"claim", "take", "block", "unblock", "unblock_later"})
"""Rules that a store applies by itself."""

OPEN_RULES: Final = tuple(name for name in RULES if name not in _INNER)
HOLDER_RULES: Final = tuple(name for name, rule in RULES.items() if rule.by_holder)
LOSSES: Final = ("lose", "lose_to_orphan", "lose_to_hold", "lose_killed")


def _by(rule: str) -> Stage:
    async def stage(scene: Scene, queue: QueueId, node: NodeId) -> TaskId:
        task = await scene.add(queue)
        if RULES[rule].ends_lease:
            await scene.finish(node, rule, task)
        else:
            await scene.make(rule, task)
        return task

    return stage


def _claimed(start: bool) -> Stage:
    async def stage(scene: Scene, queue: QueueId, node: NodeId) -> TaskId:
        task = await scene.add(queue)
        await scene.take(node, task, start=start)
        return task

    return stage


def _born(delay: int = 0, blocked: bool = False) -> Stage:
    async def stage(scene: Scene, queue: QueueId, node: NodeId) -> TaskId:
        parents = (Edge(await scene.add(queue)),) if blocked else ()
        return await scene.add(queue, delay=delay, parents=parents)

    return stage


STAGES: Final = {
    Status.DELAYED: _born(delay=50), Status.HELD: _by("hold"), Status.ORPHANED: _by("lose_to_orphan"),
    Status.CANCELLED: _by("cancel"), Status.BLOCKED: _born(blocked=True), Status.TERMINATED: _by("terminate"),
    Status.QUEUED: _born(), Status.CLAIMED: _claimed(start=False), Status.RUNNING: _claimed(start=True),
    Status.SUCCEEDED: _by("succeed"), Status.FAILED: _by("fail"),
}  # fmt: skip
"""How a task gets each status."""


class MovesContract(StoreContract):
    @story
    async def test_a_move_is_applied_exactly_where_the_table_allows_it(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=10_000_000)
        for status, stage in STAGES.items():
            for rule in OPEN_RULES:
                task = await scene.task(await stage(scene, queue, node))
                assert task.status == status
                due = scene.clock.wall() + 99 if rule.endswith("later") else None
                refused = await scene.apply(move(task.id, rule, task.fence)._replace(due=due))
                await self._check(scene, task, rule, refused)

    async def _check(self, scene: Scene, before: Task, rule: str, refused: list[tuple[int, str]]) -> None:
        after = await scene.task(before.id)
        if before.status in RULES[rule].sources:
            # A kicked task goes where it belongs, whichever of the two its mover thought of.
            expected = Status.QUEUED if rule == "kick_to_block" else RULES[rule].target
            assert (refused, after.status) == ([], expected), (rule, before.status)
            assert (after.ended is not None) == is_final(after.status)
        else:
            verdict = Verdict.STALE if RULES[rule].by_holder else Verdict.WRONG_STATUS
            assert refused == [(0, verdict)], (rule, before.status)
            assert after == before

    @story
    async def test_nobody_gets_a_lease_by_a_move(self, scene: Scene) -> None:
        queue = await scene.queue()
        task = await scene.add(queue)
        for rule in ("claim", "take"):
            assert await scene.apply(move(task, rule)) != []
        assert await scene.statuses(task) == [Status.QUEUED]

    @story
    async def test_a_rule_that_is_not_there_is_an_error_of_ours(self, scene: Scene) -> None:
        task = await scene.add(await scene.queue())
        with pytest.raises(GangerError):
            await scene.apply(move(task, "cancel")._replace(rule="explode"))
        assert await scene.statuses(task) == [Status.QUEUED]

    @story
    async def test_a_task_that_is_not_there_is_gone(self, scene: Scene) -> None:
        assert await scene.apply(move(TaskId(99), "cancel"), move(TaskId(98), "succeed", Fence(1))) == [
            (0, Verdict.GONE),
            (1, Verdict.GONE),
        ]

    @story
    async def test_a_holder_with_another_fence_is_refused_by_every_rule(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue)
        for _ in range(2):
            held = await scene.take(node, task)
            await scene.settle("release", held)
        held = await scene.take(node, task)
        before = await scene.task(task)
        for fence in (0, held.fence - 1, held.fence + 1):
            moves = [move(task, rule, Fence(fence)) for rule in HOLDER_RULES]
            assert await scene.apply(*moves) == [(index, Verdict.STALE) for index in range(len(moves))]
        assert await scene.task(task) == before

    @story
    async def test_a_fence_that_is_given_counts_for_every_mover(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue))
        moves = [move(held.id, rule, Fence(held.fence + 1)) for rule in LOSSES]
        assert [verdict for _, verdict in await scene.apply(*moves)] == [Verdict.STALE] * len(LOSSES)

    @story
    async def test_a_settled_task_cannot_be_settled_again(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        for rule in HOLDER_RULES:
            if not RULES[rule].ends_lease:
                continue
            held = await scene.take(node, await scene.add(queue))
            await scene.settle(rule, held, due=scene.clock.wall() + 9)
            before = await scene.task(held.id)
            again = [move(held.id, each, held.fence) for each in HOLDER_RULES]
            assert await scene.apply(*again) == [(index, Verdict.STALE) for index in range(len(again))]
            assert await scene.task(held.id) == before

    @story
    async def test_a_holder_whose_node_is_silent_is_refused_before_anybody_noticed(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=1_000)
        held = await scene.take(node, await scene.add(queue))
        scene.clock.advance(1_000)
        moves = [move(held.id, rule, held.fence) for rule in HOLDER_RULES]
        assert await scene.apply(*moves) == [(index, Verdict.STALE) for index in range(len(moves))]
        assert await scene.statuses(held.id) == [Status.CLAIMED]

    @story
    async def test_a_lease_that_was_taken_back_is_dead_also_when_the_node_lives(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        for rule in LOSSES:
            held = await scene.take(node, await scene.add(queue))
            await scene.make(rule, held.id)
            assert (await scene.task(held.id)).fence == held.fence + 1
            refused = await scene.apply(*(move(held.id, each, held.fence) for each in HOLDER_RULES))
            assert [verdict for _, verdict in refused] == [Verdict.STALE] * len(HOLDER_RULES)

    @story
    async def test_the_old_holder_cannot_settle_what_another_has_now(self, scene: Scene) -> None:
        queue, one, two = await scene.queue(), await scene.node("a"), await scene.node("b")
        old = await scene.take(one, await scene.add(queue))
        await scene.make("lose", old.id)
        new = await scene.take(two, old.id)
        assert new.fence == old.fence + 2
        assert await scene.apply(move(old.id, "succeed", old.fence)) == [(0, Verdict.STALE)]
        await scene.settle("succeed", new)

    @story
    async def test_the_end_of_a_lease_by_its_holder_keeps_the_fence(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        for rule in ("release", "retry", "bury", "succeed"):
            held = await scene.take(node, await scene.add(queue))
            await scene.settle(rule, held)
            task = await scene.task(held.id)
            assert (task.fence, task.holder, task.until) == (held.fence, None, None)

    @story
    async def test_each_move_is_judged_by_itself(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        await scene.submit(*(plain(queue) for _ in range(3)))
        one, two, three = await scene.claim(node, queue, most=3)
        refused = await scene.apply(
            move(one.id, "succeed", one.fence), move(two.id, "succeed", Fence(9)), move(three.id, "fail", three.fence)
        )
        assert refused == [(1, Verdict.STALE)]
        assert await scene.statuses(one.id, two.id, three.id) == [Status.SUCCEEDED, Status.CLAIMED, Status.FAILED]

    @story
    async def test_all_or_nothing_is_nothing_after_one_refusal(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        await scene.submit(plain(queue), plain(queue))
        one, two = await scene.claim(node, queue, most=2)
        good = move(one.id, "succeed", one.fence)
        told = len(await scene.events())
        wrong = {
            StaleLease: move(two.id, "succeed", Fence(9)),
            WrongStatus: move(two.id, "kick"),
            TaskNotFound: move(TaskId(999), "cancel"),
        }
        for error, bad in wrong.items():
            with pytest.raises(error):
                await scene.store.exchange(Exchange((good, bad), all_or_nothing=True))
        assert await scene.statuses(one.id, two.id) == [Status.CLAIMED, Status.CLAIMED]
        assert len(await scene.events()) == told
        assert (await scene.store.exchange(Exchange((good,), all_or_nothing=True))).refused == []

    @story
    async def test_several_moves_of_one_task_are_made_in_their_order(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue))
        refused = await scene.apply(
            move(held.id, "start", held.fence),
            move(held.id, "start", held.fence),
            move(held.id, "succeed", held.fence),
            move(held.id, "fail", held.fence),
        )
        assert refused == [(1, Verdict.STALE), (3, Verdict.STALE)]
        assert await scene.facts(held.id) == [Fact.SUBMITTED, Fact.CLAIMED, Fact.STARTED, Fact.SETTLED]

    @story
    async def test_the_last_word_of_a_step_is_where_the_task_stands(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, two = await scene.submit(plain(queue), plain(queue))
        await scene.make("hold", one)
        assert await scene.apply(move(one, "kick"), move(two, "hold"), move(two, "kick"), move(one, "hold")) == []
        for task in (one, two):
            _, last = (await scene.history(task))[-1]
            assert [last.status] == await scene.statuses(task)

    @story
    async def test_what_follows_from_a_move_is_told_behind_the_moves(self, scene: Scene) -> None:
        queue = await scene.queue()
        parent, child, other = await scene.submit(plain(queue), plain(queue, parents=(Edge(-1),)), plain(queue))
        assert await scene.apply(move(parent, "cancel"), move(child, "hold"), move(other, "cancel")) == []
        assert await scene.statuses(child) == [Status.CANCELLED]
        assert await scene.facts(child) == [Fact.SUBMITTED, Fact.HELD, Fact.CANCELLED]

    @story
    async def test_settle_and_claim_are_one_step(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        first, child, other = await scene.submit(
            plain(queue, priority=1), plain(queue, parents=(Edge(-1),), priority=2), plain(queue, priority=3)
        )
        held = await scene.take(node, first)
        exchanged = await scene.store.exchange(
            Exchange((move(first, "succeed", held.fence),), Claim(node, (queue,), most=2))
        )
        assert ids_of(exchanged.claimed) == [child, other]

    @story
    async def test_each_rule_adds_to_its_own_counters_alone(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node(lease=10_000_000)
        for name in OPEN_RULES:
            rule = RULES[name]
            if name == "kick_to_block":
                continue
            source = max(rule.sources)
            before = await scene.task(await STAGES[source](scene, queue, node))
            fence = before.fence if rule.by_holder else Fence(0)
            await scene.apply(move(before.id, name, fence)._replace(due=scene.clock.wall() + 99))
            after = await scene.task(before.id)
            grown = {each for each in Counter if getattr(after, each) == getattr(before, each) + 1}
            same = {each for each in Counter if getattr(after, each) == getattr(before, each)}
            assert (grown, grown | same) == (set(rule.adds), set(Counter)), name

    @story
    async def test_a_crash_is_counted_apart_from_attempts(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue))
        await scene.make("lose", held.id, crashed=True)
        again = await scene.take(node, held.id)
        assert (again.attempts, again.crashes) == (0, 1)
        await scene.settle("retry", again)
        assert ((await scene.take(node, held.id)).attempts, (await scene.task(held.id)).crashes) == (1, 1)
