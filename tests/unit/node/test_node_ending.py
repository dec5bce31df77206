"""A node that is drained or stopped, and attempts that are killed."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import pytest

from ganger.assembly.source import EngineSource
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Release, Succeed
from ganger.core.state import Status
from ganger.core.task import Kind
from ganger.node.source import Beaten
from ganger.testing.clock import FakeClock
from tests.unit.node.guarded import until
from tests.unit.node.staffed import Hall, HandBatch, HandExecutor, enact

pytestmark = pytest.mark.slow

LONG: Final = 600_000
"""A lease with which the next beat is due after everybody has lost patience."""


def test_a_drain_waits_for_what_runs_and_gives_back_what_was_fetched_ahead() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(4)
        node = hall.node(hand, slots=1, prefetch=2)
        await node.start()
        await hand.running(1)
        await hall.has_status(Status.CLAIMED, *tasks[1:3])
        draining = asyncio.create_task(node.drain())
        await hall.has_status(Status.QUEUED, *tasks[1:3])
        assert not draining.done()
        hand.runs[tasks[0]].finish(Succeed())
        await draining

        assert await hall.status(*tasks) == [Status.SUCCEEDED, *[Status.QUEUED] * 3]
        assert (await hall.get(tasks[1])).attempts == 0
        assert [found.state for found in await hall.engine.nodes.all()] == ["left"]
        assert hand.closed == [False]

    enact(scenario)


def test_a_drain_hands_back_what_outlasts_its_grace_and_counts_nothing() -> None:
    async def scenario(hall: Hall) -> None:
        hand, batch = HandExecutor(), HandBatch()
        (task,) = await hall.submit()
        node = hall.node(hand, batch=[batch], grace=50)
        await node.start()
        (run,) = await hand.running(1)
        await hall.has_status(Status.RUNNING, task)
        await node.drain()
        found = await hall.get(task)

        assert run.stopped is not None
        assert (found.status, found.attempts, found.crashes) == (Status.QUEUED, 0, 0)

    enact(scenario)


def test_a_stop_ends_a_drain_that_takes_too_long() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        node = hall.node(hand)
        await node.start()
        await hand.running(1)
        draining = asyncio.create_task(node.drain())
        await until(node.draining.is_set)
        await node.stop()
        await draining

        assert (await hall.get(task)).attempts == 0
        assert await hall.status(task) == [Status.QUEUED]

    enact(scenario)


def test_a_node_that_an_operator_drains_is_retired_at_once_if_it_has_nothing() -> None:
    async def scenario(hall: Hall) -> None:
        node = hall.node(HandExecutor(), lease=30_000)
        await node.start()
        await until(lambda: node.ready().is_ready)
        await hall.engine.nodes.drain("ada", by="test")
        await asyncio.wait_for(node.retired.wait(), 60)
        (task,) = await hall.submit()

        assert node.ready() == (False, "the node was told to drain")
        await node.drain()
        assert await hall.status(task) == [Status.QUEUED]
        assert [found.state for found in await hall.engine.nodes.all()] == ["left"]

    enact(scenario)


def test_an_operators_drain_gives_back_what_has_not_begun_and_lets_the_rest_end() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(4)
        node = hall.node(hand, slots=1, prefetch=2)
        await node.start()
        await hand.running(1)
        await hall.has_status(Status.CLAIMED, *tasks[1:3])
        await hall.engine.nodes.drain("ada", by="test")
        await hall.has_status(Status.QUEUED, *tasks[1:])
        assert not node.retired.is_set()
        hand.runs[tasks[0]].finish(Succeed())
        await asyncio.wait_for(node.retired.wait(), 60)
        await node.drain()

        assert await hall.status(*tasks) == [Status.SUCCEEDED, *[Status.QUEUED] * 3]
        assert hand.runs.keys() == {tasks[0]}

    enact(scenario)


def test_functions_that_have_not_begun_go_back_when_an_operator_drains() -> None:
    async def scenario(hall: Hall) -> None:
        batch = HandBatch(3)
        tasks = await hall.submit(4, kind=Kind.FUNCTION)
        node = hall.node(batch=[batch])
        await node.start()
        await until(lambda: len(batch.held) == 3)
        batch.executing = {(tasks[0], batch.held[tasks[0]][0].claimed.fence)}
        await hall.engine.nodes.drain("ada", by="test")
        await hall.has_status(Status.QUEUED, *tasks[1:])
        assert await hall.status(tasks[0]) == [Status.RUNNING]
        batch.finish(tasks[0])
        await asyncio.wait_for(node.retired.wait(), 60)
        await hall.has_status(Status.SUCCEEDED, tasks[0])

    enact(scenario)


def test_a_node_that_is_resumed_before_it_has_left_takes_tasks_as_before() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(3)
        node = hall.node(hand, slots=1, prefetch=1)
        await node.start()
        (run,) = await hand.running(1)
        await hall.engine.nodes.drain("ada", by="test")
        await hall.has_status(Status.QUEUED, *tasks[1:])
        await hall.engine.nodes.resume("ada", by="test")
        await hall.has_status(Status.CLAIMED, tasks[1])
        run.finish(Succeed())
        assert [one.task for one in await hand.running(1)] == [tasks[1]]

        assert node.ready() == (True, "")
        assert not node.retired.is_set()

    enact(scenario)


def test_what_outlasts_the_grace_of_an_operators_drain_is_handed_back() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        node = hall.node(hand, grace=50)
        await node.start()
        (run,) = await hand.running(1)
        await hall.has_status(Status.RUNNING, task)
        await hall.engine.nodes.drain("ada", by="test")
        await asyncio.wait_for(node.retired.wait(), 60)
        await hall.has_status(Status.QUEUED, task)

        assert run.stopped is not None
        assert (await hall.get(task)).crashes == 0

    enact(scenario)


def test_a_draining_node_that_is_given_up_does_not_come_again() -> None:
    clock = FakeClock()

    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        await hall.submit()
        node = hall.node(hand)
        await node.start()
        await hand.running(1)
        await hall.engine.nodes.drain("ada", by="test")
        await asyncio.wait_for(node.session.told_to_drain.wait(), 60)
        clock.advance(30_001)
        await hall.submit()
        await asyncio.wait_for(node.retired.wait(), 60)
        await node.drain()

        assert [found.state for found in await hall.engine.nodes.all() if found.here] in ([], ["draining"])
        assert len(await hall.engine.nodes.all()) == 1

    enact(scenario, clock=clock)


def test_a_stop_leaves_at_once_and_blames_nobody() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        node = hall.node(hand)
        await node.start()
        await hand.running(1)
        await hall.has_status(Status.RUNNING, task)
        await node.stop()
        await hall.has_status(Status.QUEUED, task)

        assert (await hall.get(task)).crashes == 0

    enact(scenario, upkeep=True)


def test_a_kill_reaches_what_runs_and_what_waits_here() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(2)
        await hall.node(hand, slots=1, prefetch=1, lease=LONG).start()
        await hand.running(1)
        await hall.has_status(Status.CLAIMED, tasks[1])
        await hall.engine.kill(tasks, by="test")
        await hall.has_status(Status.TERMINATED, *tasks)

        assert hand.runs.keys() == {tasks[0]}

    enact(scenario)


class Crossing(EngineSource):
    """Somebody kills tasks while the node's beat, which knows nothing of that, is on its way back."""

    victims: Sequence[TaskId] = ()

    async def beat(self, *given: Any, **fields: Any) -> Beaten:
        beaten = await super().beat(*given, **fields)
        victims, self.victims = self.victims, ()
        if victims:
            await self._engine.kill(victims, by="test")
            for _ in range(10):
                await asyncio.sleep(0)
        return beaten


def test_a_kill_that_comes_during_a_beat_does_not_wait_until_the_next_one_is_due() -> None:
    async def scenario(hall: Hall) -> None:
        hand, source = HandExecutor(), Crossing(hall.engine, hall.clock, blobs=hall.blobs)
        tasks = await hall.submit()
        await hall.node(hand, source=source, slots=1, lease=LONG).start()
        await hand.running(1)
        source.victims = tasks
        await hall.submit()

        await hall.has_status(Status.TERMINATED, *tasks)

    enact(scenario)


def test_a_function_that_was_to_be_killed_and_had_not_begun_does_not_run_again() -> None:
    class Slow(HandBatch):
        async def stop(self, task: TaskId, fence: Fence, reason: str) -> None:
            self.finish(task, Release())

    async def scenario(hall: Hall) -> None:
        batch = Slow()
        (task,) = await hall.submit(kind=Kind.FUNCTION)
        await hall.node(batch=[batch]).start()
        await until(lambda: batch.held)
        await hall.engine.kill([task], by="test")

        await hall.has_status(Status.TERMINATED, task)

    enact(scenario)
