"""Waiting for tasks to end: told, not polled, and never missed."""

import asyncio

import pytest

from ganger.core.errors import StoreUnavailable
from ganger.core.graph import Edge
from ganger.core.ids import TaskId
from ganger.core.outcome import Fail, Succeed
from ganger.core.state import Status
from ganger.engine.store import EVENTS_TOPIC
from ganger.engine.wait import Waited
from tests.unit.engine.stage import Stage, play, settle_down


def test_a_wait_ends_when_all_have_ended() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(3)
        waiting = asyncio.create_task(stage.engine.wait(ids))
        for outcome in (Succeed(), Fail(9), Succeed()):
            await settle_down()
            assert not waiting.done()
            await stage.engine.settle([(await stage.take_one(), outcome)])
        assert await waiting == Waited([Status.SUCCEEDED, 9, Status.SUCCEEDED], True)

    play(scenario)


def test_nobody_is_told_of_everything_while_nobody_waits() -> None:
    async def scenario(stage: Stage) -> None:
        assert not stage.store.listening[EVENTS_TOPIC]
        (task,) = await stage.submit_many(1)
        waiting = asyncio.create_task(stage.engine.wait([task]))
        await settle_down()
        assert stage.store.listening[EVENTS_TOPIC]
        await stage.engine.settle([(await stage.take_one(), Succeed())])
        await waiting
        await stage.submit_many(1)
        await settle_down()
        assert not stage.store.listening[EVENTS_TOPIC]
        assert await stage.engine.wait([task]) == Waited([Status.SUCCEEDED], True)

    play(scenario)


def test_what_has_ended_before_is_answered_at_once_and_also_twice() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        await stage.engine.cancel([task], by="test")
        assert await stage.engine.wait([task, task]) == Waited([Status.CANCELLED] * 2, True)

    play(scenario)


def test_a_task_that_never_was_or_is_removed_has_no_status() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        waiting = asyncio.create_task(stage.engine.wait([task, TaskId(99)]))
        await settle_down()
        await stage.engine.remove(task, by="test")
        assert await waiting == Waited([None, None], True)

    play(scenario)


def test_the_time_limit_gives_what_is_known() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(2)
        await stage.engine.cancel(ids[:1], by="test")
        waited = await stage.engine.wait(ids, 0.01)
        assert waited == Waited([Status.CANCELLED, Status.QUEUED], False)

    play(scenario)


def test_a_held_task_ends_a_wait_that_asks_for_that_as_long_as_it_is_held() -> None:
    async def scenario(stage: Stage) -> None:
        held, other = await stage.submit_many(2)
        await stage.engine.hold([held], by="test")
        through = asyncio.create_task(stage.engine.wait([held]))
        waiting = asyncio.create_task(stage.engine.wait([held, other], until_held=True))
        await settle_down()
        assert not waiting.done()
        await stage.engine.settle([(await stage.take_one(), Succeed())])
        assert await waiting == Waited([Status.HELD, Status.SUCCEEDED], False, (held,))
        assert not through.done()
        await stage.engine.kick([held], by="test")
        again = asyncio.create_task(stage.engine.wait([held], until_held=True))
        await settle_down()
        assert not again.done()
        await stage.engine.hold([held], by="test")
        assert await again == Waited([Status.HELD], False, (held,))
        await stage.engine.cancel([held], by="test")
        assert await through == Waited([Status.CANCELLED], True)

    play(scenario)


def test_children_that_end_by_a_cascade_end_the_wait() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit(stage.task(), stage.task(parents=(Edge(-1),)), stage.task(parents=(Edge(-2),)))
        waiting = asyncio.create_task(stage.engine.wait(ids))
        await settle_down()
        await stage.engine.settle([(await stage.take_one(), Fail())])
        assert (await waiting).statuses == [Status.FAILED, Status.CANCELLED, Status.CANCELLED]

    play(scenario)


def test_those_who_wait_ask_nothing_while_nothing_happens() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(100)
        waiting = [asyncio.create_task(stage.engine.wait([task])) for task in ids]
        await settle_down(500)
        stage.store.asked.clear()
        await settle_down()
        assert not stage.store.asked
        await stage.engine.cancel(ids, by="test")
        await asyncio.gather(*waiting)
        assert stage.store.asked["tasks"] <= 1
        assert stage.store.asked["events"] <= 4

    play(scenario)


def test_an_end_between_the_look_and_the_wait_is_not_missed() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        stage.store.gates["tasks"] = gate = asyncio.Event()
        waiting = asyncio.create_task(stage.engine.wait([task]))
        await stage.store.entered.wait()
        claimed = await stage.take_one()
        await stage.engine.settle([(claimed, Succeed())])
        gate.set()
        assert (await waiting).statuses == [Status.SUCCEEDED]

    play(scenario)


def test_an_end_while_the_reader_finds_its_place_is_not_missed() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        stage.store.gates["directory"] = gate = asyncio.Event()
        waiting = asyncio.create_task(stage.engine.wait([task]))
        await stage.store.entered.wait()
        await stage.engine.settle([(await stage.take_one(), Succeed())])
        gate.set()
        assert (await waiting).statuses == [Status.SUCCEEDED]

    play(scenario)


def test_a_reader_that_fails_tells_those_who_wait() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        waiting = asyncio.create_task(stage.engine.wait([task]))
        await settle_down()
        stage.store.faults["events"] = StoreUnavailable("gone")
        await stage.submit_many(1)
        with pytest.raises(StoreUnavailable):
            await waiting
        stage.store.faults.clear()
        await stage.engine.cancel([task], by="test")
        assert (await stage.engine.wait([task])).done

    play(scenario)


def test_waits_come_and_go_while_tasks_end_and_none_is_left_hanging() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(60)

        async def end_all() -> None:
            while claimed := await stage.take(1):
                await stage.engine.settle([(claimed[0], Succeed())])
                await asyncio.sleep(0)

        async def watch(task: TaskId) -> None:
            for _ in range(task % 7):
                await asyncio.sleep(0)
            assert (await stage.engine.wait([task])).done

        await asyncio.gather(end_all(), *map(watch, ids))
        assert not stage.engine._follower._watched

    play(scenario)


def test_closing_sends_those_home_who_wait() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(2)
        waiting = asyncio.create_task(stage.engine.wait(ids))
        await settle_down()
        await stage.engine.close()
        assert await waiting == Waited([Status.QUEUED, Status.QUEUED], False)

    play(scenario)
