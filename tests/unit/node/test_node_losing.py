"""A node whose leases are lost, whose store is away, or that was given up."""

import asyncio
from collections.abc import Sequence

import pytest

from ganger.core.errors import NodeTaken, StoreUnavailable
from ganger.core.lease import Lease
from ganger.core.node import Registration
from ganger.core.outcome import Succeed
from ganger.core.state import Status
from ganger.core.task import Kind
from ganger.engine.store import Claim
from ganger.testing.clock import FakeClock
from tests.unit.node.guarded import until
from tests.unit.node.staffed import Hall, HandExecutor, enact


def test_a_result_that_comes_too_late_is_refused_and_counted() -> None:
    clock = FakeClock()

    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        node = hall.node(hand)
        await node.start()
        (run,) = await hand.running(1)
        await hall.has_status(Status.RUNNING, task)
        clock.advance(30_001)
        run.finish(Succeed())
        await until(lambda: node.stale == 1)

        assert await hall.status(task) == [Status.RUNNING]
        assert "stale_results" in hall.diary.names()

    enact(scenario, clock=clock)


def test_a_node_that_was_given_up_ends_everything_and_comes_anew() -> None:
    clock = FakeClock()

    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        node = hall.node(hand)
        await node.start()
        (run,) = await hand.running(1)
        first = node.session.node
        clock.advance(30_001)
        assert node.ready() == (False, "no beat was answered in the time of a lease")
        await hall.submit()
        await until(lambda: run.stopped)
        await until(lambda: node.session.node != first and node.session.joined.is_set())
        assert node.stale == 0
        (again,) = await hand.running(1)

        assert run.stopped == "its lease was lost"
        assert again.task != task
        assert node.ready() == (True, "")

    enact(scenario, clock=clock)


def test_while_the_store_is_away_everything_runs_on_and_is_settled_later() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(2)
        node = hall.node(hand, lease=600)
        await node.start()
        (run, other) = await hand.running(2)
        away = StoreUnavailable("away")
        hall.store.faults = {"exchange": away, "configure": away}
        run.finish(Succeed())
        await until(lambda: {"settle_failed", "beat_failed"} <= set(hall.diary.names()))
        assert other.stopped is None
        hall.store.faults = {}
        await hall.has_status(Status.SUCCEEDED, tasks[0])

        await hall.has_status(Status.RUNNING, tasks[1])
        assert node.session.is_trusted

    enact(scenario)


def test_readiness_tells_that_nothing_can_be_claimed() -> None:
    async def scenario(hall: Hall) -> None:
        node = hall.node(HandExecutor())
        assert node.ready() == (False, "the node is new")
        await node.start()
        hall.store.faults = {"exchange": StoreUnavailable("away")}
        await hall.submit()
        await until(lambda: not node.ready().is_ready)
        assert node.ready() == (False, "nothing can be claimed: away")
        hall.store.faults = {}
        await until(lambda: node.ready().is_ready)

    enact(scenario)


def test_a_lease_that_nobody_here_knows_of_is_given_back() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        node = hall.node(hand, lease=150, token="secret", slots=1)
        tasks = await hall.submit(2)
        await node.start()
        await hand.running(1)
        # Without the limit of its slots it can be given what it never asked for.
        await hall.engine.nodes.register(Registration("ada", "secret", None, 150, kinds=(Kind.COMMAND,)))
        lost = await hall.engine.claim(Claim(node.session.node, (hall.queue.id,), 1))
        assert [one.id for one in lost] == [tasks[1]]
        node.carrier.hands.doubted.set()
        await until(lambda: "stray_lease_given_back" in hall.diary.names())
        await hall.has_status(Status.QUEUED, tasks[1])

    enact(scenario)


def test_a_start_that_is_refused_ends_the_attempt() -> None:
    async def scenario(hall: Hall) -> None:
        class Stale:
            """A source for which every lease has ended by the time that it is told of the start."""

            def __init__(self) -> None:
                self._source = hall.source()

            def __getattr__(self, name: str) -> object:
                return getattr(self._source, name)

            async def started(self, leases: Sequence[Lease]) -> Sequence[int]:
                return range(len(leases))

        hand = HandExecutor()
        (task,) = await hall.submit()
        await hall.node(hand, source=Stale()).start()
        await until(lambda: task in hand.runs and hand.runs[task].stopped)
        await until(lambda: "attempt_dropped" in hall.diary.names())

        assert await hall.status(task) == [Status.CLAIMED]

    enact(scenario)


def test_a_name_that_another_live_node_has_is_refused() -> None:
    async def scenario(hall: Hall) -> None:
        await hall.node(HandExecutor()).start()

        with pytest.raises(NodeTaken, match="another node is called ada"):
            await hall.node(HandExecutor(), token="another").start()

    enact(scenario)


def test_a_node_whose_name_was_taken_meanwhile_can_be_drained() -> None:
    clock = FakeClock()

    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        node = hall.node(hand)
        await node.start()
        clock.advance(30_001)
        await hall.engine.nodes.register(Registration("ada", "another"))
        await hall.submit()
        await until(lambda: "name_taken" in hall.diary.names())
        await asyncio.wait_for(node.drain(), 60)

        assert [found.state for found in await hall.engine.nodes.all()] == ["lost", "active"]

    enact(scenario, clock=clock)
