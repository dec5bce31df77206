"""A node that goes on with what its predecessor left."""

import asyncio
from collections.abc import Sequence

from ganger.core.ids import TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Succeed
from ganger.core.state import Status
from ganger.core.task import Claimed, Kind
from ganger.engine.store import Claim
from tests.unit.node.guarded import until
from tests.unit.node.staffed import Hall, HandBatch, HandExecutor, enact


def test_a_restart_leaves_what_runs_to_the_next_node() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(3)
        first = hall.node(hand, token="secret", slots=2, prefetch=1, handover=60_000, lease=300)
        await first.start()
        runs = await hand.running(2)
        await hall.has_status(Status.RUNNING, *tasks[:2])
        await first.stop(leave_running=True)

        assert hand.closed == [True]
        assert await hall.status(*tasks) == [Status.RUNNING, Status.RUNNING, Status.QUEUED]
        assert all(run.trusted_until > hall.clock.now() + 40_000 for run in runs)
        runs[0].finish(Succeed(b"meanwhile"))
        second = hall.node(hand, token="secret", slots=2)
        await second.start()
        await hall.has_status(Status.SUCCEEDED, tasks[0])
        runs[1].finish(Succeed(b"after"))
        await hall.has_status(Status.SUCCEEDED, tasks[1])

        assert second.session.node == first.session.node
        assert (await hall.get(tasks[1])).attempts == 1
        assert [run.stopped for run in runs] == [None, None]

    enact(scenario)


def test_what_a_dead_node_held_and_runs_nowhere_is_settled_at_once() -> None:
    async def scenario(hall: Hall) -> None:
        tasks = await hall.submit(1)
        functions = await hall.submit(2, kind=Kind.FUNCTION)
        claimed = await _die_with(hall, [*tasks, *functions])
        hand, batch = HandExecutor(), HandBatch()
        batch.blamed = {(functions[1], claimed[functions[1]].fence)}
        hand.left = []
        await hall.engine.queues.pause(hall.queue.id, by="test")
        await hall.node(hand, batch=[batch], token="secret").start()
        await hall.has_status(Status.QUEUED, *tasks, *functions)

        assert [(await hall.get(task)).crashes for task in (*tasks, *functions)] == [1, 0, 1]

    enact(scenario)


async def _die_with(hall: Hall, tasks: Sequence[TaskId]) -> dict[TaskId, Claimed]:
    """Hold these as a node that said that they run, and say no more."""
    dead = await hall.engine.nodes.register(Registration("ada", "secret"))
    claimed = await hall.engine.claim(Claim(dead.id, (hall.queue.id,), len(tasks), start=True))
    return {one.id: one for one in claimed}


def test_what_runs_without_a_lease_is_ended_and_forgotten() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        first = hall.node(hand, token="secret")
        await first.start()
        (run,) = await hand.running(1)
        await first.stop(leave_running=True)
        await hall.engine.nodes.leave(first.session.node, "secret")
        await hall.node(hand, token="secret", name="eve").start()
        await until(lambda: run.forgotten)

        assert run.stopped == "its lease was lost"
        assert await hall.status(task) == [Status.RUNNING]

    enact(scenario)


def test_a_function_that_was_executed_is_blamed_also_if_nobody_was_told_that_it_runs() -> None:
    async def scenario(hall: Hall) -> None:
        tasks = await hall.submit(2, kind=Kind.FUNCTION)
        dead = await hall.engine.nodes.register(Registration("ada", "secret"))
        held = {one.id: one for one in await hall.engine.claim(Claim(dead.id, (hall.queue.id,), 2))}
        batch = HandBatch()
        batch.blamed = {(tasks[1], held[tasks[1]].fence)}
        await hall.engine.queues.pause(hall.queue.id, by="test")
        await hall.node(HandExecutor(), batch=[batch], token="secret").start()
        await hall.has_status(Status.QUEUED, *tasks)

        assert [(await hall.get(task)).crashes for task in tasks] == [0, 1]

    enact(scenario)


def test_a_restart_extends_the_leases_before_it_waits_for_functions() -> None:
    class Slow(HandBatch):
        def __init__(self) -> None:
            super().__init__()
            self.asked, self.may_end = asyncio.Event(), asyncio.Event()

        async def close(self, *, give_back: bool) -> None:
            self.asked.set()
            await self.may_end.wait()
            await super().close(give_back=give_back)

    async def scenario(hall: Hall) -> None:
        hand, batch = HandExecutor(), Slow()
        await hall.submit()
        await hall.submit(kind=Kind.FUNCTION)
        node = hall.node(hand, batch=[batch], lease=300, handover=60_000)
        await node.start()
        (run,) = await hand.running(1)
        stopping = asyncio.create_task(node.stop(leave_running=True))
        await batch.asked.wait()
        await until(lambda: run.trusted_until > hall.clock.now() + 40_000)
        (found,) = await hall.engine.nodes.all()
        assert found.until > hall.clock.now() + 40_000
        batch.may_end.set()
        await stopping

    enact(scenario)


def test_a_drain_that_takes_too_long_can_be_turned_into_a_restart() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        first = hall.node(hand, token="secret")
        await first.start()
        (run,) = await hand.running(1)
        await hall.has_status(Status.RUNNING, task)
        draining = asyncio.create_task(first.drain())
        await until(first.draining.is_set)
        await first.stop(leave_running=True)
        await draining
        await hall.node(hand, token="secret").start()
        run.finish(Succeed())
        await hall.has_status(Status.SUCCEEDED, task)

        assert (run.stopped, hand.closed[0]) == (None, True)
        assert (await hall.get(task)).fence == 1

    enact(scenario)
