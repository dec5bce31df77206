"""What operators do to tasks, and that each of it is written down."""

import json

import pytest

from ganger.core.errors import (
    BadInput,
    BadName,
    BadNumber,
    Conflict,
    CycleFound,
    NodeNotFound,
    NotAllowed,
    StaleLease,
    StoreUnavailable,
    TaskNotFound,
    WrongStatus,
)
from ganger.core.graph import Edge
from ganger.core.ids import TaskId
from ganger.core.outcome import Fail, Hold, Succeed
from ganger.core.state import Status, Verdict
from ganger.core.task import Kind
from ganger.core.token import Attempt
from ganger.engine.store import Change, Edit
from tests.unit.engine.stage import Stage, play


def test_a_held_task_is_not_taken_until_it_is_kicked() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        assert (await stage.engine.hold([task, TaskId(9)], by="ann", reason="look")).refused == [(9, Verdict.GONE)]
        assert await stage.take() == []
        assert (await stage.get(task)).reason == "look"
        assert (await stage.engine.kick([task, TaskId(9)], by="ann")).done == [task]
        assert (await stage.take_one()).id == task

    play(scenario)


def test_a_held_task_that_still_waits_for_a_parent_goes_back_to_waiting() -> None:
    async def scenario(stage: Stage) -> None:
        parent, child = await stage.submit(stage.task(), stage.task(parents=(Edge(-1),)))
        await stage.engine.hold([child], by="ann")
        await stage.engine.kick([child], by="ann")
        assert await stage.status(child) == Status.BLOCKED
        await stage.engine.hold([child], by="ann")
        await stage.engine.settle([(await stage.take_one(), Succeed())])
        await stage.engine.kick([child], by="ann")
        assert await stage.status(child) == Status.QUEUED
        assert parent != child

    play(scenario)


def test_kicking_a_queue_takes_held_tasks_first_and_delayed_ones_only_if_none_is_held() -> None:
    async def scenario(stage: Stage) -> None:
        delayed = await stage.submit_many(2, delay=60_000)
        buried = await stage.submit_many(3)
        for one in await stage.take(3):
            await stage.engine.settle([(one, Hold())])
        kick = stage.engine.kick_queue
        assert (await kick(stage.queue.id, 2, by="ann")).done == buried[:2]
        assert (await kick(stage.queue.id, 9, by="ann")).done == buried[2:]
        assert (await kick(stage.queue.id, 9, by="ann")).done == delayed
        assert (await kick(stage.queue.id, 9, by="ann")).done == []
        with pytest.raises(BadNumber):
            await kick(stage.queue.id, 0, by="ann")

    play(scenario)


def test_what_waits_is_cancelled_and_what_runs_is_not() -> None:
    async def scenario(stage: Stage) -> None:
        running, waiting = await stage.submit_many(2)
        await stage.take_one()
        moved = await stage.engine.cancel([running, waiting], by="ann")
        assert (moved.done, moved.refused) == ([waiting], [(running, Verdict.WRONG_STATUS)])

    play(scenario)


@pytest.mark.parametrize("act", ["cancel", "kill"])
def test_a_group_is_ended_with_all_below_it(act: str) -> None:
    async def scenario(stage: Stage) -> None:
        group, inner, running, waiting, deep = await stage.submit(
            stage.task(Kind.GROUP), stage.task(Kind.GROUP, group=-1), stage.task(group=-1), stage.task(group=-1),
            stage.task(group=-2),
        )  # fmt: skip
        assert (await stage.take_one()).id == running
        assert (await getattr(stage.engine, act)([group], by="ann")).done == [group]
        assert [await stage.status(task) for task in (group, inner, waiting, deep)] == [Status.CANCELLED] * 4
        assert (await stage.get(running)).kill

    play(scenario)


def test_a_kill_of_a_group_that_was_cut_off_is_finished_by_the_next() -> None:
    async def scenario(stage: Stage) -> None:
        group, running = await stage.submit(stage.task(Kind.GROUP), stage.task(group=-1))
        await stage.take_one()
        stage.store.faults["find"] = StoreUnavailable("cut off")
        with pytest.raises(StoreUnavailable):
            await stage.engine.kill([group], by="ann")
        stage.store.faults.clear()
        moved = await stage.engine.kill([group], by="ann")
        assert moved.refused == [(group, Verdict.WRONG_STATUS)]
        assert (await stage.get(running)).kill

    play(scenario)


def test_a_kill_reaches_the_others_when_some_have_ended() -> None:
    async def scenario(stage: Stage) -> None:
        ended, running, waiting = await stage.submit_many(3)
        first, _ = await stage.take(2)
        await stage.engine.settle([(first, Succeed())])
        moved = await stage.engine.kill([ended, running, waiting, TaskId(99)], by="ann")
        assert moved.done == [running, waiting]
        assert moved.refused == [(ended, Verdict.WRONG_STATUS), (99, Verdict.GONE)]
        assert (await stage.get(running)).kill
        assert await stage.status(waiting) == Status.CANCELLED

    play(scenario)


def test_thousands_are_moved_in_steps_that_each_have_their_line() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(2_500)
        assert (await stage.engine.hold(ids, by="ann")).done == ids
        lines = (await stage.memory.audit(0))[1:]  # type: ignore[arg-type]
        assert [len(json.loads(line.detail)["tasks"]) for line in lines] == [1_000, 1_000, 500]
        assert {(line.who, line.action) for line in lines} == {("ann", "task.hold")}

    play(scenario)


def test_a_final_task_is_tried_again_as_a_new_one_that_names_it() -> None:
    async def scenario(stage: Stage) -> None:
        (old,) = await stage.submit(
            stage.task(spec=b"s" * 5_000, priority=7, description="d", key="k", requires=(), limit_key="c", timeout=9)
        )
        with pytest.raises(WrongStatus, match="has not ended"):
            await stage.engine.retry_final(old, by="ann")
        await stage.engine.settle([(await stage.take_one(), Fail())])
        new = await stage.engine.retry_final(old, by="ann")
        seen = await stage.get(new)
        assert (seen.retry_of, seen.priority, seen.description, seen.key) == (old, 7, "d", None)
        assert (seen.limit_key, seen.timeout, seen.kind, seen.queue) == ("c", 9, Kind.FUNCTION, stage.queue.id)
        assert (await stage.take_one()).spec == b"s" * 5_000
        assert await stage.status(old) == Status.FAILED
        with pytest.raises(TaskNotFound):
            await stage.engine.retry_final(TaskId(99), by="ann")

    play(scenario)


def test_a_task_that_has_not_started_can_be_changed() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        change = Change(spec=b"new", priority=1, description="other", timeout=5)
        await stage.engine.edit([Edit(task, change=change)], by="ann")
        claimed = await stage.take_one()
        assert (claimed.spec, claimed.priority, claimed.timeout) == (b"new", 1, 5)
        with pytest.raises(WrongStatus):
            await stage.engine.edit([Edit(task, change=change)], by="ann")
        assert "new" not in (await stage.memory.audit(0))[-1].detail  # type: ignore[arg-type]

    play(scenario)


def test_edges_come_and_go_and_make_no_cycle() -> None:
    async def scenario(stage: Stage) -> None:
        first, second = await stage.submit_many(2)
        await stage.engine.link(second, first, by="ann")
        assert await stage.status(second) == Status.BLOCKED
        with pytest.raises(CycleFound):
            await stage.engine.link(first, second, by="ann")
        await stage.engine.unlink(second, first, by="ann")
        assert await stage.status(second) == Status.QUEUED

    play(scenario)


def test_a_removed_task_leaves_its_parents_to_its_children_or_takes_them_along() -> None:
    async def scenario(stage: Stage) -> None:
        top, middle, low = await stage.submit(
            stage.task(), stage.task(parents=(Edge(-1),)), stage.task(parents=(Edge(-2),))
        )
        await stage.engine.remove(middle, by="ann")
        assert [parent for parent, _ in (await stage.engine.look(low)).family.parents] == [top]
        await stage.engine.remove(top, by="ann", descendants=True)
        assert await stage.engine.tasks([top, middle, low]) == [None, None, None]

    play(scenario)


def test_an_open_group_ends_when_it_is_closed() -> None:
    async def scenario(stage: Stage) -> None:
        group, _ = await stage.submit(stage.task(Kind.GROUP, open_group=True), stage.task(group=-1))
        await stage.engine.settle([(await stage.take_one(), Succeed())])
        assert await stage.status(group) == Status.BLOCKED
        await stage.engine.close_group(group, by="ann")
        assert await stage.status(group) == Status.SUCCEEDED

    play(scenario)


def test_a_holder_edits_its_own_family_under_its_lease_and_nothing_else() -> None:
    async def scenario(stage: Stage) -> None:
        _, child, stranger = await stage.submit(stage.task(), stage.task(parents=(Edge(-1),)), stage.task())
        lease = (await stage.take_one()).lease
        attempt = Attempt(lease)
        await stage.engine.edit([Edit(child, change=Change(priority=3))], under=attempt)
        with pytest.raises(NotAllowed):
            await stage.engine.edit([Edit(stranger, change=Change(priority=3))], under=attempt)
        await stage.engine.release(lease)
        with pytest.raises(StaleLease):
            await stage.engine.edit([Edit(child, change=Change(priority=4))], under=attempt)

    play(scenario)


@pytest.mark.parametrize(
    "edit",
    [
        Edit(TaskId(1)),
        Edit(TaskId(1), kill=True, remove=True),
        Edit(TaskId(1), kill=True, descendants=True),
        Edit(TaskId(1), link=(TaskId(2), "perhaps")),
        Edit(TaskId(1), change=Change(priority=-1)),
        Edit(TaskId(1), change=Change(timeout=0)),
        Edit(TaskId(1), change=Change(retry="x")),
        Edit(TaskId(1), change=Change(description="\0")),
        Edit(TaskId(1), change=Change(spec=b"x" * 2_000_000)),
    ],
)
def test_an_edit_that_makes_no_sense_is_refused(edit: Edit) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(2)
        with pytest.raises(BadInput):
            await stage.engine.edit([edit], by="ann")
        assert stage.store.asked["edit"] == 0

    play(scenario)


def test_an_edit_says_who_makes_it() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1)
        with pytest.raises(BadInput, match="say who edits"):
            await stage.engine.edit([Edit(TaskId(1), kill=True)])
        with pytest.raises(BadName):
            await stage.engine.kill([TaskId(1)], by="ann\nadmin")

    play(scenario)


def test_one_that_is_still_taken_to_be_here_is_orphaned_only_by_force() -> None:
    async def scenario(stage: Stage) -> None:
        (first,) = await stage.submit_many(1)
        (held,) = await stage.take(1)
        with pytest.raises(Conflict, match="--force"):
            await stage.engine.orphan(stage.node.name, by="ann")
        assert (await stage.engine.orphan(stage.node.name, by="ann", force=True)).done == [first]
        assert await stage.status(first) == Status.ORPHANED
        assert [verdict for _, verdict in (await stage.engine.settle([(held, Succeed())])).refused] == ["stale"]

    play(scenario)


def test_what_a_node_that_is_no_more_has_in_hand_can_be_orphaned() -> None:
    async def scenario(stage: Stage) -> None:
        first, second = await stage.submit_many(2)
        claimed = await stage.take_one()
        with pytest.raises(Conflict, match="is here"):
            await stage.engine.orphan(stage.node.name, by="ann")
        await stage.engine.nodes.leave(stage.node.id, "token of ada")

        assert (await stage.engine.orphan(stage.node.name, by="ann")).done == [first]
        assert [await stage.status(task) for task in (first, second)] == [Status.ORPHANED, Status.QUEUED]
        assert (await stage.engine.settle([(claimed, Succeed())])).refused == [(0, Verdict.STALE)]
        with pytest.raises(NodeNotFound):
            await stage.engine.orphan("nobody", by="ann")

    play(scenario)
