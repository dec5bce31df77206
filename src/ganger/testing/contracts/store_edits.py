"""How graphs are edited: changes, kills, removals, edges that come and go."""

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import CycleFound, GangerError, StaleLease, TaskNotFound, UnknownParent, WrongStatus
from ganger.core.event import Fact
from ganger.core.graph import Edge, Join, On
from ganger.core.ids import Fence, TaskId
from ganger.core.state import Status
from ganger.engine.store import Change, Datum, Edit, Edits
from ganger.testing.contracts.scene import Scene, StoreContract, append, ids_of, plain, put, story

B, C, Q, S = Status.BLOCKED, Status.CANCELLED, Status.QUEUED, Status.SUCCEEDED


class EditsContract(StoreContract):
    @story
    async def test_a_waiting_task_is_changed_where_the_change_says(self, scene: Scene) -> None:
        queue = await scene.queue()
        task = await scene.add(queue, spec=b"old", description="d", delay=50)
        scene.clock.advance(1)
        due = Wall(scene.clock.wall() + 5)
        await scene.edit(task, change=Change(spec=b"new spec", priority=3, due=due, retry="[]", timeout=8))
        kept = await scene.task(task)
        assert (kept.priority, kept.due, kept.retry, kept.timeout, kept.description) == (3, due, "[]", 8, "d")
        assert (kept.spec_size, await scene.data(task, "spec"), kept.modified) == (8, b"new spec", scene.clock.wall())
        assert (await scene.facts(task))[-1] == Fact.EDITED

    @story
    async def test_a_spec_may_grow_and_shrink_over_every_limit(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue, spec=b"x" * 5_000)
        for size in (3, 90_000, 0, 1_025, 7):
            await scene.edit(task, change=Change(spec=b"y" * size))
            assert ((await scene.task(task)).spec_size, len(await scene.data(task, "spec") or b"")) == (
                size, min(size, 65_536),
            )  # fmt: skip
        assert (await scene.take(node, task)).spec == b"y" * 7

    @story
    async def test_a_change_of_priority_changes_the_order(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        one, two = await scene.submit(plain(queue), plain(queue))
        await scene.edit(two, change=Change(priority=1))
        assert ids_of(await scene.claim(node, queue, most=2)) == [two, one]

    @story
    async def test_a_delayed_task_may_be_due_earlier(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        task = await scene.add(queue, delay=500)
        await scene.edit(task, change=Change(due=scene.clock.wall()))
        assert ids_of(await scene.claim(node, queue)) == [task]

    @story
    async def test_what_has_started_or_ended_is_not_changed(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue))
        for _ in range(2):
            with pytest.raises(WrongStatus):
                await scene.edit(held.id, change=Change(priority=1))
            with pytest.raises(WrongStatus):
                await scene.edit(held.id, link=(await scene.add(queue), On.SUCCESS))
            if await scene.statuses(held.id) == [Status.CLAIMED]:
                await scene.settle("succeed", held)

    @story
    async def test_edits_are_all_made_or_none(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, two = await scene.submit(plain(queue), plain(queue))
        told = len(await scene.events())
        edits = (Edit(one, change=Change(priority=1)), Edit(two, remove=True), Edit(TaskId(99), kill=True))
        with pytest.raises(TaskNotFound):
            await scene.store.edit(Edits(edits))
        assert (await scene.task(one)).priority != 1
        assert await scene.statuses(two) == [Q]
        assert len(await scene.events()) == told

    @story
    async def test_a_kill_cancels_what_waits_and_marks_what_runs(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        waits, runs, other = await scene.submit(*(plain(queue) for _ in range(3)))
        held = await scene.take(node, runs)
        await scene.take(node, other)
        assert await scene.beat(node) == ()
        await scene.edit(waits, kill=True)
        await scene.edit(runs, kill=True)
        assert await scene.statuses(waits, runs) == [C, Status.CLAIMED]
        assert ((await scene.task(runs)).kill, await scene.beat(node)) == (True, (runs,))
        assert (await scene.facts(runs))[-1] == Fact.KILL_REQUESTED
        await scene.settle("terminate", held)
        assert await scene.beat(node) == ()

    @story
    async def test_a_kill_of_a_waiting_task_is_felt_below(self, scene: Scene) -> None:
        queue = await scene.queue()
        parent, child = await scene.submit(plain(queue), plain(queue, parents=(Edge(-1),)))
        await scene.edit(parent, kill=True)
        assert await scene.statuses(parent, child) == [C, C]

    @story
    async def test_a_removed_task_takes_everything_of_its_own_along(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue, key="k"))
        await scene.write(put(held.id, held.fence, "d", b"v"), append(held.id, held.fence, 0, b"out"))
        with pytest.raises(WrongStatus):
            await scene.edit(held.id, remove=True)
        await scene.settle("succeed", held, result=b"r")
        await scene.edit(held.id, remove=True)
        assert await scene.gone(held.id)
        with pytest.raises(TaskNotFound):
            await scene.store.look(held.id)
        assert (await scene.facts(held.id))[-1] == Fact.REMOVED
        ((counts,), _) = await scene.store.counts()
        assert (counts.by_status, counts.total) == ({}, 0)

    @story
    async def test_the_children_of_a_removed_task_get_its_parents(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        top, middle, bottom = await scene.submit(
            plain(queue), plain(queue, parents=(Edge(-1),)), plain(queue, parents=(Edge(-2, On.FINISHED),))
        )
        await scene.edit(middle, remove=True)
        assert (await scene.store.look(bottom)).family.parents == [(top, On.FINISHED)]
        assert ((await scene.task(bottom)).waits, (await scene.task(top)).kids) == (1, 1)
        await scene.finish(node, "fail", top)
        assert await scene.statuses(bottom) == [Q]

    @story
    async def test_the_child_of_a_removed_task_without_parents_is_ready(self, scene: Scene) -> None:
        queue = await scene.queue()
        for join in (Join.ALL, Join.ANY):
            top, child, later = await scene.submit(
                plain(queue),
                plain(queue, parents=(Edge(-1),), join=join),
                plain(queue, parents=(Edge(-1),), join=join, delay=50),
            )
            await scene.edit(top, remove=True)
            assert await scene.statuses(child, later) == [Q, Status.DELAYED]

    @story
    async def test_a_child_with_another_parent_waits_on_for_that(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        one, two, child = await scene.submit(plain(queue), plain(queue), plain(queue, parents=(Edge(-1), Edge(-2))))
        await scene.edit(one, remove=True)
        assert ((await scene.task(child)).waits, await scene.statuses(child)) == (1, [B])
        await scene.finish(node, "succeed", two)
        assert await scene.statuses(child) == [Q]

    @story
    async def test_the_child_of_a_removed_task_gets_what_its_parents_have_decided(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        done, open_, middle, child = await scene.submit(
            plain(queue), plain(queue), plain(queue, parents=(Edge(-1), Edge(-2))), plain(queue, parents=(Edge(-3),))
        )
        await scene.finish(node, "succeed", done)
        await scene.edit(middle, remove=True)
        assert (await scene.task(child)).waits == 1
        await scene.finish(node, "succeed", open_)
        assert await scene.statuses(child) == [Q]

    @story
    async def test_a_removed_parent_that_was_final_has_decided_already(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        one, two, child = await scene.submit(plain(queue), plain(queue), plain(queue, parents=(Edge(-1), Edge(-2))))
        await scene.finish(node, "succeed", one)
        await scene.edit(one, remove=True)
        assert ((await scene.task(child)).waits, await scene.statuses(child)) == (1, [B])
        await scene.finish(node, "succeed", two)
        assert await scene.statuses(child) == [Q]

    @story
    async def test_a_task_is_removed_with_all_that_waits_below(self, scene: Scene) -> None:
        queue = await scene.queue()
        top, child, grandchild, side, outside = await scene.submit(
            plain(queue),
            plain(queue, parents=(Edge(-1),)),
            plain(queue, parents=(Edge(-2), Edge(-4))),
            plain(queue),
            plain(queue),
        )
        await scene.edit(top, remove=True, descendants=True)
        assert [await scene.gone(task) for task in (top, child, grandchild, side, outside)] == [True] * 3 + [False] * 2
        assert (await scene.task(side)).kids == 0

    @story
    async def test_a_chain_that_has_ended_is_removed_whole(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        chain = await scene.submit(
            plain(queue), plain(queue, parents=(Edge(-1),)), plain(queue, parents=(Edge(-2, On.FAILED),)),
            plain(queue, parents=(Edge(-3, On.FINISHED), Edge(-2))),
        )  # fmt: skip
        for task in (chain[0], chain[1]):
            await scene.finish(node, "succeed", task)
        assert await scene.statuses(*chain) == [Status.SUCCEEDED, Status.SUCCEEDED, C, Q]
        await scene.edit(chain[0], remove=True, descendants=True)
        assert [await scene.gone(task) for task in chain] == [True] * 4
        ((counts,), _) = await scene.store.counts()
        assert (counts.by_status, counts.total) == ({}, 0)

    @story
    async def test_nothing_is_removed_while_something_below_runs_and_the_error_names_it(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        top, child, below = await scene.submit(
            plain(queue), plain(queue, parents=(Edge(-1),)), plain(queue, parents=(Edge(-2),))
        )
        await scene.finish(node, "succeed", top)
        held = await scene.take(node, child)
        with pytest.raises(WrongStatus) as refused:
            await scene.edit(top, remove=True, descendants=True)
        assert refused.value.fields["tasks"] == [child]
        await scene.settle("succeed", held)
        assert await scene.statuses(top, child, below) == [Status.SUCCEEDED, Status.SUCCEEDED, Q]

    @story
    async def test_a_new_edge_makes_a_task_wait(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, ready, delayed, held = await scene.submit(
            plain(queue), plain(queue), plain(queue, delay=5), plain(queue)
        )
        await scene.make("hold", held)
        for task in (ready, delayed, held):
            await scene.edit(task, link=(parent, On.SUCCESS))
        assert await scene.statuses(ready, delayed, held) == [B, B, Status.HELD]
        assert [(await scene.task(task)).waits for task in (ready, delayed, held)] == [1, 1, 1]
        assert (await scene.task(parent)).kids == 3
        (claimed,) = await scene.claim(node, queue, most=10)
        assert claimed.id == parent
        await scene.settle("succeed", claimed)
        scene.clock.advance(5)
        await scene.make("kick", held)
        assert ids_of(await scene.claim(node, queue, most=10)) == [ready, delayed, held]

    @story
    async def test_a_new_edge_to_a_final_parent_is_decided_at_once(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        failed = await scene.add(queue)
        await scene.finish(node, "fail", failed)
        holds, never, waits = await scene.submit(plain(queue), plain(queue), plain(queue, parents=(Edge(-1),)))
        await scene.edit(holds, link=(failed, On.FINISHED))
        await scene.edit(waits, link=(failed, On.FAILED))
        await scene.edit(never, link=(failed, On.SUCCESS))
        assert await scene.statuses(holds, never, waits) == [Q, C, B]
        assert (await scene.task(waits)).waits == 1

    @story
    async def test_a_new_edge_decides_a_join_of_any_by_what_is_left(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        failed, good, open_ = await scene.submit(plain(queue), plain(queue), plain(queue, delay=500))
        await scene.finish(node, "fail", failed)
        await scene.finish(node, "succeed", good)
        hopes, gets = await scene.submit(*(plain(queue, parents=(Edge(open_),), join=Join.ANY) for _ in range(2)))
        await scene.edit(hopes, link=(failed, On.SUCCESS))
        await scene.edit(gets, link=(good, On.SUCCESS))
        assert await scene.statuses(hopes, gets) == [B, Q]

    @story
    async def test_no_edge_can_close_a_cycle(self, scene: Scene) -> None:
        queue = await scene.queue()
        one, two, three = await scene.submit(
            plain(queue), plain(queue, parents=(Edge(-1),)), plain(queue, parents=(Edge(-2),))
        )
        for parent in (one, two, three):
            with pytest.raises(CycleFound):
                await scene.edit(one, link=(parent, On.FINISHED))
        assert await scene.statuses(one) == [Q]
        with pytest.raises(UnknownParent):
            await scene.edit(one, link=(TaskId(99), On.SUCCESS))
        await scene.edit(three, link=(one, On.SUCCESS))

    @story
    async def test_an_edge_that_is_taken_away_is_not_waited_for(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        one, two, child, only = await scene.submit(
            plain(queue), plain(queue), plain(queue, parents=(Edge(-1), Edge(-2))), plain(queue, parents=(Edge(-1),))
        )
        await scene.edit(child, unlink=one)
        await scene.edit(only, unlink=one)
        assert await scene.statuses(child, only) == [B, Q]
        assert ((await scene.task(child)).waits, (await scene.task(one)).kids) == (1, 0)
        await scene.finish(node, "fail", one)
        await scene.finish(node, "succeed", two)
        assert await scene.statuses(child) == [Q]

    @story
    async def test_a_join_of_any_whose_last_open_edge_goes_is_lost_or_free(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        failed, open_, lost, free = await scene.submit(
            plain(queue),
            plain(queue),
            plain(queue, parents=(Edge(-1), Edge(-2)), join=Join.ANY),
            plain(queue, parents=(Edge(-2),), join=Join.ANY),
        )
        await scene.finish(node, "fail", failed)
        await scene.edit(lost, unlink=open_)
        await scene.edit(free, unlink=open_)
        assert await scene.statuses(lost, free) == [C, Q]

    @story
    async def test_a_value_is_kept_under_a_lease_in_the_family_ended_or_not(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        parent, child = await scene.submit(plain(queue), plain(queue, parents=(Edge(-1),)))
        (stranger,) = await scene.submit(plain(queue))
        await scene.finish(node, "succeed", parent)
        held = await scene.take(node, child)
        under, datum = (held.id, held.fence), Datum("note", b"one")
        await scene.store.edit(Edits((Edit(parent, datum=datum),), under))
        await scene.store.edit(Edits((Edit(parent, datum=Datum("note", b"two", only_if_unset=True)),), under))
        with pytest.raises(GangerError):
            await scene.store.edit(Edits((Edit(stranger, datum=datum),), under))
        with pytest.raises(StaleLease):
            await scene.store.edit(Edits((Edit(parent, datum=datum),), (held.id, Fence(held.fence + 1))))
        assert [(await scene.store.value(task, "note", 0, 9)).body for task in (parent, stranger)] == [b"one", None]

    @story
    async def test_edits_under_a_lease_reach_the_family_and_nobody_else(self, scene: Scene) -> None:
        queue, node = await scene.queue(), await scene.node()
        held = await scene.take(node, await scene.add(queue))
        child, stranger = await scene.submit(plain(queue, parents=(Edge(held.id),)), plain(queue))
        under = (held.id, held.fence)
        await scene.store.edit(Edits((Edit(child, change=Change(priority=1)),), under))
        with pytest.raises(GangerError):
            await scene.store.edit(Edits((Edit(stranger, change=Change(priority=1)),), under))
        with pytest.raises(StaleLease):
            await scene.store.edit(Edits((Edit(child, change=Change(priority=2)),), (held.id, Fence(held.fence + 1))))
        assert [(await scene.task(task)).priority for task in (child, stranger)] == [1, plain(queue).priority]
