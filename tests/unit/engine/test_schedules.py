"""Schedules with the real engine, on memory and on SQLite: each tick once, whatever the clock and the processes do."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from ganger.core.errors import DuplicateKey, QueueNotFound, StoreUnavailable, TaskNotFound
from ganger.core.event import Fact
from ganger.core.ids import Position, TaskId
from ganger.core.outcome import Succeed
from ganger.core.schedule import QUEUE, Missed, Schedule
from ganger.core.state import Status
from ganger.core.task import Kind
from ganger.engine.follow import Wanted
from ganger.engine.schedules import Scheduler, Schedules, Work
from ganger.engine.store import Query
from ganger.runtime.clock import SystemClock
from tests.unit.engine.both import STORES, Play, play_on
from tests.unit.engine.stage import OTHER_QUEUE, Stage, play

MINUTE = 60_000
START = 1_700_000_040_000
"""The stage's clock stands twenty seconds before a whole minute; this one is whole."""


@pytest.fixture(params=STORES)
def on_both(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    return play_on(request.param, tmp_path)


async def add(stage: Stage, name: str = "s", **fields: Any) -> TaskId:
    fields.setdefault("cron", "* * * * *")
    work = Work(stage.queue.id, Kind.FUNCTION, b"spec", 7, description="tick tock")
    return await Schedules(stage.engine, stage.clock).add(Schedule(name, **fields), work, by="ann")


async def made(stage: Stage) -> list[str]:
    return [task.key or "" for task in (await stage.engine.find(Query(queue=stage.queue.id))).tasks]


def keys(*minutes: int, name: str = "s") -> list[str]:
    return [f"schedule:{name}:{START + minute * MINUTE}" for minute in minutes]


def to(stage: Stage, minute: float) -> None:
    """Let time pass until then."""
    stage.fake.advance(round(START + minute * MINUTE) - stage.clock.wall())


async def finish(stage: Stage) -> None:
    await stage.engine.settle([(one, Succeed()) for one in await stage.take(10, await stage.join("ada"))])


def test_each_tick_becomes_a_task_of_its_own(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        scheduler = Scheduler(stage.engine, stage.clock)
        await add(stage)
        stepped = await scheduler.step()
        assert (stepped.done, stepped.next_at) == (0, START)
        for minute in range(3):
            to(stage, minute)
            assert (await scheduler.step()).next_at == START + (minute + 1) * MINUTE
            assert (await scheduler.step()).done == 0
            await finish(stage)
        assert await made(stage) == keys(0, 1, 2)
        (first, *_) = (await stage.engine.find(Query(queue=stage.queue.id))).tasks
        assert (first.kind, first.priority, first.description) == (Kind.FUNCTION, 7, "tick tock")
        assert (await stage.engine.read_data(first.id, "spec")).body == b"spec"

    on_both(scenario)


def test_many_schedulers_and_restarts_make_a_tick_once(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        await add(stage, overlap=True)
        for minute in range(3):
            to(stage, minute)
            await asyncio.gather(*(Scheduler(stage.engine, stage.clock).step() for _ in range(4)))
        assert await made(stage) == keys(0, 1, 2)

    on_both(scenario)


def test_a_death_between_the_tick_and_its_note_makes_no_second_tick() -> None:
    async def scenario(stage: Stage) -> None:
        await add(stage)
        to(stage, 0)
        stage.store.faults["write"] = StoreUnavailable("gone")
        with pytest.raises(StoreUnavailable):
            await Scheduler(stage.engine, stage.clock).step()
        stage.store.faults.clear()
        await Scheduler(stage.engine, stage.clock).step()
        assert await made(stage) == keys(0)

    play(scenario)


@pytest.mark.parametrize(
    ("missed", "minutes"), [(Missed.SKIP, (5,)), (Missed.ONCE, (5,)), (Missed.ALL, (0, 1, 2, 3, 4, 5))]
)
def test_missed_ticks_are_made_as_the_policy_says(missed: str, minutes: tuple[int, ...]) -> None:
    async def scenario(stage: Stage) -> None:
        await add(stage, missed=missed, overlap=True)
        to(stage, 5.5)
        await Scheduler(stage.engine, stage.clock).step()
        assert await made(stage) == keys(*minutes)

    play(scenario)


@pytest.mark.parametrize("missed", [Missed.SKIP, Missed.ONCE])
def test_a_tick_that_is_long_past_is_skipped_or_made_once(missed: str) -> None:
    async def scenario(stage: Stage) -> None:
        await add(stage, cron=None, every=10 * MINUTE, start=START, missed=missed)
        to(stage, 19)
        stepped = await Scheduler(stage.engine, stage.clock).step()
        assert stepped.next_at == START + 20 * MINUTE
        assert await made(stage) == (keys(10) if missed == Missed.ONCE else [])

    play(scenario)


def test_of_all_missed_ticks_only_the_newest_are_made_up_to_the_bound() -> None:
    async def scenario(stage: Stage) -> None:
        await add(stage, missed=Missed.ALL, overlap=True, most=3)
        to(stage, 1_000)
        await Scheduler(stage.engine, stage.clock).step()
        assert await made(stage) == keys(998, 999, 1_000)

    play(scenario)


def test_no_tick_overlaps_the_one_before_unless_asked(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        scheduler = Scheduler(stage.engine, stage.clock)
        await add(stage)
        await add(stage, "free", overlap=True)
        for minute in range(4):
            to(stage, minute)
            await scheduler.step()
        assert sorted(await made(stage)) == sorted(keys(0) + keys(0, 1, 2, 3, name="free"))
        await finish(stage)
        await scheduler.step()
        assert keys(3)[0] in await made(stage)
        assert keys(2)[0] not in await made(stage)

    on_both(scenario)


def test_all_missed_ticks_without_overlap_follow_one_another() -> None:
    async def scenario(stage: Stage) -> None:
        scheduler = Scheduler(stage.engine, stage.clock)
        await add(stage, missed=Missed.ALL)
        to(stage, 2)
        for minute in range(3):
            for _ in range(3):
                await scheduler.step()
            assert await made(stage) == keys(*range(minute + 1))
            await finish(stage)

    play(scenario)


def test_when_the_wall_clock_jumps_each_tick_is_still_made_once(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        scheduler = Scheduler(stage.engine, stage.clock)
        await add(stage, overlap=True)
        for minute in range(5):
            to(stage, minute)
            await scheduler.step()
        stage.fake.jump_wall(-3 * MINUTE)
        for minute in range(2, 7):
            to(stage, minute)
            await scheduler.step()
        assert await made(stage) == keys(*range(7))
        stage.fake.jump_wall(10_000 * MINUTE)
        await scheduler.step()
        stage.fake.jump_wall(-10_000 * MINUTE)
        to(stage, 7)
        for _ in range(2):
            await scheduler.step()
        to(stage, 8)
        await scheduler.step()
        assert await made(stage) == [*keys(*range(7), 10_006), *keys(8)]

    on_both(scenario)


def test_a_held_schedule_rests_and_a_kicked_one_goes_on(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        scheduler = Scheduler(stage.engine, stage.clock)
        task = await add(stage)
        await scheduler.step()
        await stage.engine.hold([task], by="ann")
        to(stage, 3)
        await scheduler.step()
        assert await made(stage) == []
        assert [plan.paused async for plan in Schedules(stage.engine, stage.clock).all()] == [True]
        await stage.engine.kick([task], by="ann")
        await scheduler.step()
        assert await made(stage) == keys(3)

    on_both(scenario)


def test_a_schedule_is_listed_and_removed_and_its_name_is_free_again(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        schedules, scheduler = Schedules(stage.engine, stage.clock), Scheduler(stage.engine, stage.clock)
        assert [plan async for plan in schedules.all()] == []
        await add(stage)
        with pytest.raises(DuplicateKey):
            await add(stage)
        await add(stage, "t", cron=None, every=5_000)
        to(stage, 0)
        await scheduler.step()
        plans = {plan.schedule.name: plan async for plan in schedules.all()}
        assert (plans["s"].last.until, plans["t"].schedule.every) == (START, 5_000)
        await schedules.remove("s", by="ann")
        with pytest.raises(TaskNotFound):
            await schedules.get("s")
        to(stage, 1)
        await scheduler.step()
        assert keys(1)[0] not in await made(stage)
        await add(stage)
        assert "schedule.add" in [line.action for line in await stage.memory.audit(0)]  # type: ignore[arg-type]

    on_both(scenario)


def test_a_schedule_in_trouble_stops_no_other() -> None:
    async def scenario(stage: Stage) -> None:
        scheduler = Scheduler(stage.engine, stage.clock)
        other = await stage.engine.queues.create("short", by="ann")
        await Schedules(stage.engine, stage.clock).add(
            Schedule("lost", "* * * * *"), Work(other.id, Kind.FUNCTION), by="ann"
        )
        queue = await stage.engine.queues.named(QUEUE)
        await stage.submit(stage.task(Kind.GROUP, queue=queue.id, spec=b"{", open_group=True))
        await add(stage)
        await stage.engine.queues.delete(other.id, by="ann")
        to(stage, 0)
        await scheduler.step()
        assert await made(stage) == keys(0)

    play(scenario)


def test_a_schedule_for_a_queue_that_is_not_there_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(QueueNotFound):
            await Schedules(stage.engine, stage.clock).add(
                Schedule("s", "@daily"), Work(OTHER_QUEUE, Kind.FUNCTION), by="ann"
            )

    play(scenario)


def test_the_task_of_a_schedule_is_never_handed_out() -> None:
    async def scenario(stage: Stage) -> None:
        task = await add(stage)
        queue = await stage.engine.queues.named(QUEUE)
        assert await stage.take(5, queues=(queue.id,)) == []
        assert await stage.status(task) == Status.BLOCKED

    play(scenario)


def test_the_loop_makes_ticks_by_itself_and_is_told_of_new_schedules() -> None:
    async def scenario(stage: Stage) -> None:
        scheduler = Scheduler(stage.engine, stage.clock)
        await scheduler.start()
        wanted = Wanted(facts=frozenset({Fact.SUBMITTED}), queues=frozenset({stage.queue.id}))
        async with aclosing(stage.engine.subscribe(Position(0), wanted)) as events:
            await add(stage, cron="* * * * * *", overlap=True)
            ticks = [(await anext(events)).entries[0].task for _ in range(2)]
        await scheduler.stop()
        times = [int((task.key or "").rsplit(":", 1)[1]) for task in [await stage.get(tick) for tick in ticks]]
        assert times[1] - times[0] == 1_000

    play(scenario, clock=SystemClock())
