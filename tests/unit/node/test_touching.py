"""Leases with an end of their own are renewed by the node as long as their attempt is in its hands."""

import asyncio
from typing import Any

import pytest

from ganger.core.ids import TaskId
from ganger.core.lease import Renewal
from ganger.core.outcome import Succeed
from ganger.core.state import Status
from tests.unit.node.guarded import until
from tests.unit.node.staffed import Hall, HandExecutor, enact

pytestmark = pytest.mark.slow

SHORT: dict[str, Any] = {"renewal": Renewal.TOUCH, "ttr": 1_000}


async def end_of(hall: Hall, task: TaskId) -> int:
    return (await hall.get(task)).until or 0


def test_a_lease_that_is_shorter_than_a_beat_lasts_as_long_as_its_attempt() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        await hall.node(hand, lease=30_000).start()
        (task,) = await hall.submit(**SHORT)
        (run,) = await hand.running(1)
        first, trusted = await end_of(hall, task), run.trusted_until
        assert trusted < first
        await until(lambda: hall.clock.now() > first)

        assert await end_of(hall, task) > hall.clock.now()
        assert run.trusted_until > first
        assert run.stopped is None
        run.finish(Succeed())
        await hall.has_status(Status.SUCCEEDED, task)
        assert (await hall.get(task)).attempts == 1

    enact(scenario, upkeep=True)


def test_what_waits_for_a_slot_keeps_its_lease_too() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        await hall.node(hand, slots=1, prefetch=1).start()
        first, second = await hall.submit(2, **SHORT)
        (run,) = await hand.running(1)
        begun = hall.clock.now()
        await until(lambda: hall.clock.now() > begun + 1_200)
        run.finish(Succeed())
        (other,) = await hand.running(1)
        other.finish(Succeed())
        await hall.has_status(Status.SUCCEEDED, first, second)

        assert [(await hall.get(task)).reserves for task in (first, second)] == [1, 1]

    enact(scenario, upkeep=True)


def test_an_attempt_whose_touch_is_refused_is_stopped_and_nobody_hears_of_it() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        await hall.node(hand).start()
        (task,) = await hall.submit(**SHORT)
        (run,) = await hand.running(1)
        held = await hall.get(task)
        await hall.engine.settle([(await claimed_of(hall, task), Succeed())])
        await until(lambda: run.forgotten)

        assert run.stopped == "its lease was lost"
        assert (await hall.get(task)).fence == held.fence

    enact(scenario)


def test_a_restart_leaves_these_leases_to_the_next_node_too() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        first = hall.node(hand, token="secret", handover=60_000)
        await first.start()
        (task,) = await hall.submit(**SHORT)
        (run,) = await hand.running(1)
        await first.stop(leave_running=True)

        assert await end_of(hall, task) > hall.clock.now() + 40_000
        assert run.trusted_until > hall.clock.now() + 40_000
        await hall.node(hand, token="secret").start()
        run.finish(Succeed())
        await hall.has_status(Status.SUCCEEDED, task)

    enact(scenario)


async def claimed_of(hall: Hall, task: TaskId) -> Any:
    (found,) = [one for one in await hall.source().held((await hall.get(task)).holder or 0) if one.id == task]  # type: ignore[arg-type]
    return found


def test_nothing_is_asked_where_nothing_has_an_end_of_its_own() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        await hall.node(hand, lease=300).start()
        await hall.submit()
        await hand.running(1)
        beats = hall.store.asked["configure"]
        await until(lambda: hall.store.asked["configure"] > beats + 5)
        await asyncio.sleep(0)

        assert hall.store.asked["write"] == 0

    enact(scenario)
