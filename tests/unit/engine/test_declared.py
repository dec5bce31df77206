"""Schedules that a program declares, on memory and on SQLite."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ganger.core.errors import BadInput, DuplicateKey
from ganger.core.schedule import QUEUE, Schedule
from ganger.core.task import Kind, NewTask
from ganger.engine.declared import Declared, Synced, sync
from ganger.engine.schedules import Planned, Scheduler, Schedules, Work
from ganger.engine.store import Query
from tests.unit.engine.both import STORES, Play, play_on
from tests.unit.engine.stage import Stage

MINUTE = 60_000


@pytest.fixture(params=STORES)
def on_both(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    return play_on(request.param, tmp_path)


def say(stage: Stage, name: str = "s", spec: bytes = b"spec", **fields: Any) -> Declared:
    if "every" not in fields:
        fields.setdefault("cron", "* * * * *")
    return Declared(Schedule(name, **fields), Work(stage.queue.id, Kind.FUNCTION, spec))


async def keep(stage: Stage, *declared: Declared, owner: str = "shop", remove: bool = False) -> Synced:
    return await sync(Schedules(stage.engine, stage.clock), declared, owner, remove=remove)


async def get(stage: Stage, name: str = "s") -> Planned:
    return await Schedules(stage.engine, stage.clock).get(name)


def test_what_is_said_twice_is_stored_once(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        both = (say(stage), say(stage, "t", every=MINUTE))
        assert await keep(stage, *both) == Synced(added=("s", "t"))
        stage.fake.advance(5)
        assert await keep(stage, *both) == Synced(same=("s", "t"))
        assert (await get(stage)).owner == "shop"

    on_both(scenario)


def test_a_changed_one_is_changed_in_place_and_stays_paused(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        await keep(stage, say(stage))
        before = await get(stage)
        await stage.engine.hold([before.task], by="ann")
        assert await keep(stage, say(stage, spec=b"other", overlap=True)) == Synced(changed=("s",))
        after = await get(stage)
        assert (after.task, after.work.spec, after.schedule.overlap, after.paused) == (
            before.task, b"other", True, True,
        )  # fmt: skip

    on_both(scenario)


def test_new_times_begin_now_and_miss_nothing_of_the_past(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        scheduler = Scheduler(stage.engine, stage.clock)
        await keep(stage, say(stage, cron="0 0 1 1 *"))
        await scheduler.step()
        stage.fake.advance(10 * MINUTE)
        await keep(stage, say(stage, cron="* * * * *"))
        assert (await scheduler.step()).done == 0
        stage.fake.advance(MINUTE)
        assert (await scheduler.step()).done == 1

    on_both(scenario)


def test_another_work_waits_for_the_ticks_that_were_due(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        scheduler = Scheduler(stage.engine, stage.clock)
        await keep(stage, say(stage))
        stage.fake.advance(MINUTE)
        await keep(stage, say(stage, spec=b"new"))
        assert (await scheduler.step()).done == 1
        (task,) = (await stage.engine.find(Query(queue=stage.queue.id))).tasks
        assert (await stage.engine.read_data(task.id, "spec")).body == b"new"

    on_both(scenario)


def test_one_that_is_said_no_more_is_told_and_removed_only_when_asked_for(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        await keep(stage, say(stage), say(stage, "t"))
        await keep(stage, say(stage, "u"), owner="another")
        assert await keep(stage, say(stage)) == Synced(same=("s",), gone=("t",))
        assert (await get(stage, "t")).schedule.name == "t"
        assert await keep(stage, say(stage), remove=True) == Synced(same=("s",), removed=("t",))
        assert await keep(stage, say(stage)) == Synced(same=("s",))
        assert (await get(stage, "u")).owner == "another"

    on_both(scenario)


def test_a_name_of_somebody_else_is_refused_before_anything_is_written(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        await Schedules(stage.engine, stage.clock).add(*say(stage), by="ann")
        with pytest.raises(DuplicateKey, match="an operator"):
            await keep(stage, say(stage, "t"), say(stage))
        with pytest.raises(BadInput, match="cron"):
            await keep(stage, say(stage, "t"), say(stage, "u", cron="every day"))
        with pytest.raises(BadInput, match="same name"):
            await keep(stage, say(stage, "t"), say(stage, "t"))
        assert [one.schedule.name async for one in Schedules(stage.engine, stage.clock).all()] == ["s"]

    on_both(scenario)


def test_two_processes_that_come_up_at_once_keep_one(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        told = await asyncio.gather(*(keep(stage, say(stage)) for _ in range(4)))
        assert sum(one.added == ("s",) for one in told) == 1
        assert sum(one.same == ("s",) for one in told) == 3

    on_both(scenario)


def test_a_stranger_in_the_queue_stops_nobody(on_both: Play) -> None:
    async def scenario(stage: Stage) -> None:
        queue = await stage.engine.queues.ensure(QUEUE, by="test")
        await stage.engine.submit([NewTask(queue.id, Kind.GROUP, b"not one", open_group=True)])
        assert await keep(stage, say(stage)) == Synced(added=("s",))

    on_both(scenario)
