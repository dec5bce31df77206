"""Slots are given to executors, and one that has them all may have others waiting."""

import asyncio

from ganger.core.ids import TaskId
from ganger.core.outcome import Release, Succeed
from ganger.core.state import Status
from ganger.node.executor import Assignment
from ganger.node.seats import Seats
from tests.unit.node.guarded import until
from tests.unit.node.staffed import Hall, HandExecutor, HandRun, enact


class QueuedRun(HandRun):
    """One that waits until it is let in."""

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.turn = asyncio.Event()

    async def begun(self) -> None:
        await self.turn.wait()

    def let_in(self) -> None:
        self.turn.set()

    def withdraw(self) -> None:
        if not self.turn.is_set():
            self.finish(Release())
            self.let_in()

    async def stop(self, reason: str) -> None:
        await super().stop(reason)
        self.let_in()


class Queueing(HandExecutor):
    """Keeps its own queue: what it is given runs when the test says so."""

    ahead = 1

    async def start(self, assignment: Assignment) -> QueuedRun:
        run = QueuedRun(assignment)
        self.runs[run.task] = run
        return run


def test_more_than_the_slots_go_to_one_that_has_them_all() -> None:
    seats, first, second = Seats(2), Queueing(), HandExecutor()
    seats.take(first)
    seats.take(first)
    assert seats.has_room(first)
    assert not seats.has_room(second)
    seats.take(first)
    assert not seats.has_room(first)
    assert seats.used == 2


def test_slots_that_are_shared_are_never_exceeded() -> None:
    seats, first, second = Seats(2), Queueing(), HandExecutor()
    seats.take(second)
    seats.take(first)
    assert not seats.has_room(first)
    seats.leave(second)
    seats.take(first)
    assert seats.has_room(first)
    assert not seats.has_room(second)


def test_what_waits_in_an_executor_is_not_told_to_run_and_can_be_killed() -> None:
    async def scenario(hall: Hall) -> None:
        hand = Queueing()
        running, waiting, behind = await hall.submit(3)
        await hall.node(hand, slots=1, prefetch=2).start()
        await until(lambda: len(hand.runs) == 2)
        _let_in(hand, running)
        await hall.has_status(Status.RUNNING, running)
        assert await hall.status(waiting, behind) == [Status.CLAIMED] * 2

        await hall.engine.kill([waiting], by="test")
        await hall.has_status(Status.TERMINATED, waiting)
        assert await hall.status(running) == [Status.RUNNING]
        await until(lambda: behind in hand.runs)
        hand.runs[running].finish(Succeed(b"0"))
        _let_in(hand, behind)
        await hall.has_status(Status.RUNNING, behind)

    enact(scenario)


def test_a_node_that_drains_takes_back_what_waits_in_an_executor() -> None:
    async def scenario(hall: Hall) -> None:
        hand = Queueing()
        running, waiting = await hall.submit(2)
        node = hall.node(hand, slots=1, prefetch=2)
        await node.start()
        await until(lambda: len(hand.runs) == 2)
        _let_in(hand, running)
        await hall.has_status(Status.RUNNING, running)
        draining = asyncio.create_task(node.drain())
        await hall.has_status(Status.QUEUED, waiting)
        assert await hall.status(running) == [Status.RUNNING]
        hand.runs[running].finish(Succeed(b"0"))
        await draining
        assert await hall.status(running) == [Status.SUCCEEDED]

    enact(scenario)


def _let_in(hand: Queueing, task: TaskId) -> None:
    run = hand.runs[task]
    assert isinstance(run, QueuedRun)
    run.let_in()
