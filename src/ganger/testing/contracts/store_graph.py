"""What a store does with edges: who waits, who is released, who can never run."""

from ganger.core.event import Fact
from ganger.core.graph import SKIPPED, Edge, Join, On, holds
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.state import Status, move
from ganger.core.task import Kind
from ganger.engine.store import STEP_EDGES, Query
from ganger.testing.contracts.scene import Scene, StoreContract, ids_of, plain, story

B, C, Q, S = Status.BLOCKED, Status.CANCELLED, Status.QUEUED, Status.SUCCEEDED
ENDS = ("succeed", "fail", "terminate", "lose_to_orphan", "cancel")


class GraphContract(StoreContract):
    @story
    async def test_a_child_waits_for_all_its_parents(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        one, two, child = await scene.submit(plain(queue), plain(queue), plain(queue, parents=(Edge(-1), Edge(-2))))
        assert (await scene.task(child)).waits == 2
        assert [(await scene.task(parent)).kids for parent in (one, two)] == [1, 1]
        await scene.finish(node, "succeed", one)
        assert ((await scene.task(child)).waits, await scene.statuses(child)) == (1, [B])
        await scene.finish(node, "succeed", two)
        assert ((await scene.task(child)).waits, await scene.statuses(child)) == (0, [Q])
        assert await scene.facts(child) == [Fact.SUBMITTED, Fact.READIED]

    @story
    async def test_a_blocked_task_is_not_given(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, child = await scene.submit(plain(queue, priority=9), plain(queue, parents=(Edge(-1),), priority=1))
        assert await scene.claim(node, ids=(child,)) == []
        assert ids_of(await scene.claim(node, queue, most=10)) == [parent]

    @story
    async def test_a_submission_may_name_parents_that_come_later_in_it(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        child, parent = await scene.submit(plain(queue, parents=(Edge(-2),)), plain(queue))
        assert await scene.statuses(child) == [B]
        await scene.finish(node, "succeed", parent)
        assert await scene.statuses(child) == [Q]

    @story
    async def test_each_kind_of_edge_holds_for_the_ends_that_it_asks_for(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        for on in (On.SUCCESS, On.FINISHED, On.FAILED):
            for rule in ENDS:
                parent, child = await scene.submit(plain(queue), plain(queue, parents=(Edge(-1, on),)))
                await end(scene, node, rule, parent)
                held = holds(on, (await scene.task(parent)).status)
                assert await scene.statuses(child) == [Q if held else C], (on, rule)
                await scene.make("cancel", *([child] if held else []))

    @story
    async def test_an_edge_to_a_final_parent_is_decided_at_birth(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        for on in (On.SUCCESS, On.FINISHED, On.FAILED):
            for rule in ENDS:
                parent = await scene.add(queue)
                await end(scene, node, rule, parent)
                child = await scene.add(queue, parents=(Edge(parent, on),))
                held = holds(on, (await scene.task(parent)).status)
                assert await scene.statuses(child) == [Q if held else C], (on, rule)
                assert (await scene.task(child)).waits == 0
                await scene.make("cancel", *([child] if held else []))

    @story
    async def test_a_task_born_lost_is_told_and_so_are_those_below(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent = await scene.add(queue)
        await scene.finish(node, "fail", parent)
        lost, below = await scene.submit(plain(queue, parents=(Edge(parent),)), plain(queue, parents=(Edge(-1),)))
        assert await scene.statuses(lost, below) == [C, C]
        assert await scene.facts(below) == [Fact.SUBMITTED, Fact.CANCELLED]
        assert (await scene.task(lost)).ended == scene.clock.wall()

    @story
    async def test_a_lost_branch_is_cancelled_down_to_its_end_with_the_reason(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        top, child, grandchild = await scene.submit(
            plain(queue), plain(queue, parents=(Edge(-1),)), plain(queue, parents=(Edge(-2),))
        )
        await scene.finish(node, "fail", top)
        assert await scene.statuses(child, grandchild) == [C, C]
        assert str(top) in str((await scene.task(child)).reason)
        assert str(child) in str((await scene.task(grandchild)).reason)

    @story
    async def test_the_first_edge_that_never_holds_decides_a_join_of_all(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        one, two, child = await scene.submit(plain(queue), plain(queue), plain(queue, parents=(Edge(-1), Edge(-2))))
        await scene.finish(node, "fail", one)
        assert await scene.statuses(child) == [C]
        await scene.finish(node, "succeed", two)
        assert await scene.statuses(child) == [C]
        assert await scene.facts(child) == [Fact.SUBMITTED, Fact.CANCELLED]

    @story
    async def test_a_join_of_any_is_ready_with_its_first_and_lost_with_its_last(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        join = plain(queue, parents=(Edge(-1), Edge(-2)), join=Join.ANY)
        one, two, child = await scene.submit(plain(queue), plain(queue), join)
        await scene.finish(node, "succeed", one)
        assert await scene.statuses(two, child) == [Q, Q], "it waits for nobody else"

        one, two, child = await scene.submit(plain(queue), plain(queue), join)
        await scene.finish(node, "fail", one)
        assert await scene.statuses(child) == [B]
        await scene.finish(node, "succeed", two)
        assert await scene.statuses(child) == [Q]

        one, two, child = await scene.submit(plain(queue), plain(queue), join)
        await scene.finish(node, "fail", one, two)
        assert await scene.statuses(child) == [C]

    @story
    async def test_a_join_of_any_runs_once_however_many_hold(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        join = plain(queue, parents=(Edge(-1), Edge(-2)), join=Join.ANY)
        one, two, child = await scene.submit(plain(queue), plain(queue), join)
        for last in ("succeed", "fail"):
            one, two, child = await scene.submit(plain(queue), plain(queue), join)
            await scene.finish(node, "succeed", one)
            await scene.finish(node, "succeed", child)
            await scene.finish(node, last, two)
            assert await scene.statuses(child) == [S]
            assert (await scene.facts(child)).count(Fact.READIED) == 1

    @story
    async def test_a_join_of_any_that_is_ready_is_not_readied_again_nor_lost(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        join = plain(queue, parents=(Edge(-1), Edge(-2)), join=Join.ANY)
        for last in ("succeed", "fail"):
            one, two, child = await scene.submit(plain(queue), plain(queue), join)
            await scene.finish(node, "succeed", one)
            await scene.finish(node, last, two)
            assert await scene.statuses(child) == [Q]
            assert await scene.facts(child) == [Fact.SUBMITTED, Fact.READIED]

    @story
    async def test_parents_that_end_in_one_step_release_a_child_once(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        for join, rules, expected in (
            (Join.ALL, ("succeed", "succeed"), Q),
            (Join.ALL, ("succeed", "fail"), C),
            (Join.ALL, ("fail", "succeed"), C),
            (Join.ANY, ("succeed", "succeed"), Q),
            (Join.ANY, ("fail", "succeed"), Q),
            (Join.ANY, ("fail", "fail"), C),
        ):
            child, *_ = await scene.submit(
                plain(queue, parents=(Edge(-2), Edge(-3)), join=join),
                plain(queue, priority=1),
                plain(queue, priority=1),
            )
            held = await scene.claim(node, queue, most=2)
            ends = zip(held, rules, strict=True)
            assert await scene.apply(*(move(each.id, rule, each.fence) for each, rule in ends)) == []
            assert await scene.statuses(child) == [expected]
            assert len(await scene.facts(child)) == 2
            await scene.make("cancel", *([child] if expected == Q else []))

    @story
    async def test_a_delay_begins_when_the_child_is_ready(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, child = await scene.submit(plain(queue), plain(queue, parents=(Edge(-1),), delay=20))
        scene.clock.advance(100)
        await scene.finish(node, "succeed", parent)
        task = await scene.task(child)
        assert (task.status, task.due) == (Status.DELAYED, scene.clock.wall() + 20)
        scene.clock.advance(20)
        assert ids_of(await scene.claim(node, queue)) == [child]

    @story
    async def test_an_absolute_time_of_a_child_wins_over_its_delay(self, scene: Scene) -> None:
        queue, node, wall = await scene.queue(), await scene.node(), scene.clock.wall()
        parent, early, late = await scene.submit(
            plain(queue),
            plain(queue, parents=(Edge(-1),), delay=500, due=wall + 10),
            plain(queue, parents=(Edge(-1),), delay=5, due=wall + 90),
        )
        scene.clock.advance(50)
        await scene.finish(node, "succeed", parent)
        assert await scene.statuses(early, late) == [Q, Status.DELAYED]
        assert (await scene.task(late)).due == wall + 90

    @story
    async def test_a_child_may_be_added_while_its_parent_runs(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue), start=True)
        child = await scene.add(queue, parents=(Edge(held.id),))
        await scene.settle("succeed", held)
        assert await scene.statuses(child) == [Q]

    @story
    async def test_a_retried_parent_decides_nothing_yet(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, child = await scene.submit(plain(queue), plain(queue, parents=(Edge(-1, On.FINISHED),)))
        for rule in ("retry", "release", "lose", "bury"):
            await scene.finish(node, rule, parent)
            assert await scene.statuses(child) == [B]
        await scene.make("cancel", parent)
        assert await scene.statuses(child) == [Q]

    @story
    async def test_a_held_child_is_not_released_but_may_be_lost(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        one, two, stays, lost = await scene.submit(
            plain(queue), plain(queue), plain(queue, parents=(Edge(-1),)), plain(queue, parents=(Edge(-2),))
        )
        await scene.make("hold", stays, lost)
        await scene.finish(node, "succeed", one)
        await scene.finish(node, "fail", two)
        assert await scene.statuses(stays, lost) == [Status.HELD, C]
        await scene.make("kick", stays)
        assert await scene.statuses(stays) == [Q]

    @story
    async def test_a_kicked_child_waits_on_for_its_parents(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, child = await scene.submit(plain(queue), plain(queue, parents=(Edge(-1),)))
        await scene.make("hold", child)
        await scene.make("kick", child)
        assert await scene.statuses(child) == [B]
        await scene.finish(node, "succeed", parent)
        assert await scene.statuses(child) == [Q]

    @story
    async def test_a_child_kicked_to_wait_is_ready_if_nothing_is_left_to_wait_for(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, child = await scene.submit(plain(queue), plain(queue, parents=(Edge(-1),)))
        await scene.make("hold", child)
        await scene.finish(node, "succeed", parent)
        await scene.make("kick_to_block", child)
        assert await scene.statuses(child) == [Q]

    @story
    async def test_a_condition_takes_no_slot_and_waits_until_it_is_concluded(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, choice = await scene.submit(plain(queue), plain(queue, Kind.CONDITION, parents=(Edge(-1),)))
        await scene.finish(node, "succeed", parent)
        assert ((await scene.task(choice)).waits, await scene.statuses(choice)) == (0, [B])
        assert await scene.claim(node, queue, most=10) == []
        await scene.make("hold", choice)
        await scene.make("kick", choice)
        assert await scene.statuses(choice) == [B]
        await scene.make("conclude", choice)
        assert await scene.statuses(choice) == [S]

    @story
    async def test_a_condition_releases_the_branch_that_it_chose(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        for branch in (True, False):
            choice, yes, no, below, join, after = await scene.submit(
                plain(queue, Kind.CONDITION),
                plain(queue, parents=(Edge(-1, On.THEN),)),
                plain(queue, parents=(Edge(-1, On.ELSE),)),
                plain(queue, parents=(Edge(-3 if branch else -2),)),
                plain(queue, parents=(Edge(-2, On.FINISHED), Edge(-3, On.FINISHED))),
                plain(queue, parents=(Edge(-1),)),
            )
            await scene.make("conclude", choice, branch=branch)
            chosen, other = (yes, no) if branch else (no, yes)
            assert await scene.statuses(chosen, other, below, join, after) == [Q, C, C, B, Q]
            assert [(await scene.task(each)).reason for each in (other, below)] == [SKIPPED, SKIPPED]
            await scene.finish(node, "succeed", chosen, after)
            assert await scene.statuses(join) == [Q]
            await scene.make("cancel", join)

    @story
    async def test_a_failed_condition_releases_neither_branch(self, scene: Scene) -> None:
        queue = await scene.queue()
        choice, yes, no, sorry = await scene.submit(
            plain(queue, Kind.CONDITION),
            plain(queue, parents=(Edge(-1, On.THEN),)),
            plain(queue, parents=(Edge(-1, On.ELSE),)),
            plain(queue, parents=(Edge(-1, On.FAILED),)),
        )
        await scene.make("conclude_failed", choice)
        assert await scene.statuses(yes, no, sorry) == [C, C, Q]
        assert (await scene.task(yes)).reason != SKIPPED

    @story
    async def test_a_final_condition_still_knows_its_branch(self, scene: Scene) -> None:
        queue = await scene.queue()
        choice = await scene.add(queue, kind=Kind.CONDITION)
        await scene.make("conclude", choice, branch=False)
        yes, no = await scene.submit(*(plain(queue, parents=(Edge(choice, on),)) for on in (On.THEN, On.ELSE)))
        assert await scene.statuses(yes, no) == [C, Q]
        assert (await scene.task(yes)).reason == SKIPPED

    @story
    async def test_a_parent_of_very_many_children_releases_each_once(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent = await scene.add(queue)
        many = 2 * STEP_EDGES + 1
        children = await scene.submit(*(plain(queue, parents=(Edge(parent),)) for _ in range(many)))
        await scene.finish(node, "succeed", parent)
        await scene.follow()
        assert await count(scene, queue, Q) == many
        told = [entry.task for event in await scene.events() if event.fact == Fact.READIED for entry in event.entries]
        assert sorted(told) == children

    @story
    async def test_a_join_of_very_many_parents_is_released_by_the_last(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        many = 2 * STEP_EDGES + 1
        edges = tuple(Edge(-number) for number in range(1, many + 1))
        *_, child = await scene.submit(*(plain(queue, priority=1) for _ in range(many)), plain(queue, parents=edges))
        held = await scene.claim(node, queue, most=many)
        await scene.settle("succeed", *held[:-1])
        await scene.follow()
        assert ((await scene.task(child)).waits, await scene.statuses(child)) == (1, [B])
        await scene.settle("succeed", held[-1])
        await scene.follow()
        assert await scene.statuses(child) == [Q]

    @story
    async def test_many_edges_of_several_kinds_are_each_kept(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parents = await scene.submit(*(plain(queue, priority=1) for _ in range(40)))
        edges = tuple(Edge(parent, On.FINISHED if parent % 2 else On.SUCCESS) for parent in parents)
        joins = await scene.submit(*(plain(queue, parents=edges) for _ in range(3)))
        broods = await scene.submit(*(plain(queue, parents=(Edge(parents[0], On.FAILED),)) for _ in range(30)))
        assert [(await scene.task(join)).waits for join in joins] == [40] * 3
        assert [(await scene.task(parent)).kids for parent in parents] == [33] + [3] * 39
        held = await scene.claim(node, queue, most=40)
        await scene.settle("fail", *(one for one in held if one.id % 2))
        assert await scene.statuses(*joins) == [B] * 3
        await scene.settle("succeed", *(one for one in held if not one.id % 2))
        assert await scene.statuses(*joins) == [Q] * 3
        expected = [Q if parents[0] % 2 else C] * 30
        assert await scene.statuses(*broods) == expected

    @story
    async def test_a_very_long_chain_is_lost_to_its_end(self, scene: Scene) -> None:
        queue = await scene.queue()
        long = STEP_EDGES + 500
        chain = (plain(queue, parents=(Edge(-number),)) for number in range(1, long))
        first, *_ = await scene.submit(plain(queue), *chain)
        await scene.make("cancel", first)
        await scene.follow()
        assert await count(scene, queue, C) == long


async def end(scene: Scene, node: NodeId, rule: str, task: TaskId) -> None:
    if rule == "cancel":
        await scene.make(rule, task)
    else:
        await scene.finish(node, rule, task)


async def count(scene: Scene, queue: QueueId, status: Status) -> int:
    counts, _ = await scene.store.counts()
    page = await scene.store.find(Query(queue=queue, statuses=(status,), most=10_000))
    (one,) = [each for each in counts if each.queue == queue]
    found = [*page.tasks]
    while page.next is not None:
        page = await scene.store.find(Query(queue=queue, statuses=(status,), most=10_000, after=page.next))
        found += page.tasks
    assert one.by_status.get(status, 0) == len(found)
    return len(found)
