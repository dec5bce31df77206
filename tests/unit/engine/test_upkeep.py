"""Upkeep: each step does its work, does it again without harm, and the loops rest while there is nothing to do."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from ganger.core.graph import Edge
from ganger.core.ids import Position
from ganger.core.node import Vitals
from ganger.core.outcome import Release, Succeed
from ganger.core.queue import OnLost
from ganger.core.state import Status
from ganger.engine import upkeep
from ganger.engine.store import Tended
from ganger.engine.unheld import PATIENCE
from ganger.engine.upkeep import Checker, Promoter, Pruner, Reaper, Releaser, Retention, Stepped, keep_up
from ganger.runtime.clock import SystemClock
from ganger.runtime.service import ServiceState
from tests.unit.engine.stage import Recording, Stage, play, settle_down

DAY = 24 * 60 * 60 * 1000


class Told:
    def __init__(self) -> None:
        self.events: dict[str, list[dict[str, object]]] = {}
        self.news = asyncio.Event()

    def event(self, name: str, **fields: object) -> None:
        self.events.setdefault(name, []).append(fields)
        self.news.set()

    async def until(self, name: str) -> dict[str, object]:
        while name not in self.events:
            self.news.clear()
            await self.news.wait()
        return self.events[name][0]


def reaper(stage: Stage, **options: Any) -> Reaper:
    return Reaper(stage.store, stage.clock, **options)


def test_a_lease_that_its_node_has_not_in_hand_is_told_once() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(2)
        first, second = await stage.take(2)
        told = Told()
        chore = Checker(stage.store, stage.clock, telemetry=told)
        stage.fake.advance(PATIENCE + 1)
        await stage.engine.nodes.beat(first.holder, "token of ada", vitals=Vitals(hands=(first.id,)))
        assert [await chore.step() for _ in range(2)] == [Stepped(0, False, stage.clock.wall() + chore.quiet)] * 2
        assert told.events == {"lease_not_in_hand": [{"task": second.id, "fence": second.fence, "node": "ada"}]}
        await stage.engine.nodes.beat(first.holder, "token of ada", vitals=Vitals(hands=(first.id, second.id)))
        assert await chore.step() == Stepped(0)

    play(scenario)


def test_a_lost_nodes_tasks_go_back_and_what_had_started_is_blamed() -> None:
    async def scenario(stage: Stage) -> None:
        started, claimed = await stage.submit_many(2)
        first, second = await stage.take(2)
        await stage.engine.start([first.lease])
        chore = reaper(stage)
        assert (await chore.step()).done == 0
        stage.fake.advance(30_001)
        assert (await chore.step()).done == 2
        assert (await chore.step()).done == 0
        blamed, innocent = await stage.get(started), await stage.get(claimed)
        assert (blamed.status, blamed.crashes, blamed.attempts) == (Status.QUEUED, 1, 0)
        assert (innocent.status, innocent.crashes, innocent.attempts) == (Status.QUEUED, 0, 0)
        settled = await stage.engine.settle([(first, Succeed()), (second, Succeed())])
        assert [verdict for _, verdict in settled.refused] == ["stale", "stale"]

    play(scenario)


def test_a_node_that_left_is_blamed_for_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        taken = await stage.take_one()
        assert await stage.engine.start([taken.lease]) == [], "or else nobody would be blamed anyway"
        await stage.engine.nodes.leave(stage.node.id, "token of ada")
        await reaper(stage).step()
        seen = await stage.get(task)
        assert (seen.status, seen.crashes) == (Status.QUEUED, 0)

    play(scenario)


def test_a_task_that_kills_every_node_is_held_at_last() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        for turn in range(3):
            node = await stage.join(f"victim {turn}", lease=1_000)
            taken = await stage.take_one(node)
            await stage.engine.start([taken.lease])
            stage.fake.advance(1_001)
            await reaper(stage).step()
        seen = await stage.get(task)
        assert (seen.status, seen.crashes) == (Status.HELD, 3)
        assert seen.reason is not None
        assert "crashed 3 times" in seen.reason

    play(scenario)


def test_what_was_claimed_straight_to_running_is_not_blamed_by_a_lapse() -> None:
    """Of many that a node took at once only one was executing, and only the node can say which."""

    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        await stage.take_one(start=True)
        stage.fake.advance(30_001)
        await reaper(stage).step()
        seen = await stage.get(task)
        assert (seen.status, seen.crashes) == (Status.QUEUED, 0)

    play(scenario)


def test_a_lost_task_is_orphaned_or_over_if_that_is_what_was_asked_for() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.set_policy(on_lost=OnLost.ORPHAN)
        orphan, killed = await stage.submit_many(2)
        await stage.take(2, start=True)
        await stage.engine.kill([killed], by="ann")
        stage.fake.advance(30_001)
        await reaper(stage).step()
        assert [await stage.status(task) for task in (orphan, killed)] == [Status.ORPHANED, Status.TERMINATED]

    play(scenario)


def test_a_touched_lease_that_was_not_renewed_is_taken_back_while_its_node_lives() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1, renewal="touch", ttr=1_000)
        await stage.take_one()
        chore = reaper(stage)
        assert (await chore.step()).next_at == stage.clock.now() + 1_000
        stage.fake.advance(1_000)
        await chore.step()
        assert await stage.status(task) == Status.QUEUED
        assert (await stage.get(task)).timeouts == 1

    play(scenario)


def test_due_tasks_are_promoted_in_queues_that_nobody_claims_from() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1, delay=5_000)
        chore = Promoter(stage.store, stage.clock)
        stepped = await chore.step()
        assert (stepped.done, stepped.next_at) == (0, stage.clock.wall() + 5_000)
        stage.fake.advance(5_000)
        assert (await chore.step()).done == 1
        assert await stage.status(task) == Status.QUEUED

    play(scenario)


def test_old_final_tasks_go_and_young_or_open_ones_stay() -> None:
    async def scenario(stage: Stage) -> None:
        old, parent, child = await stage.submit(stage.task(), stage.task(), stage.task(parents=(Edge(-2),)))
        await stage.engine.settle([(one, Succeed()) for one in await stage.take(2)])
        chore = Pruner(stage.store, stage.clock)
        stage.fake.advance(7 * DAY)
        assert (await chore.step()).done == 0
        stage.fake.advance(1)
        assert (await chore.step()).done == 2
        assert [task is None for task in await stage.engine.tasks([old, parent, child])] == [True, True, False]
        assert (await chore.step()).done == 0

    play(scenario)


def test_the_oldest_output_goes_when_there_is_too_much() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(3)
        for claimed in await stage.take(3):
            await stage.engine.append_output(claimed.lease, "stdout", 0, b"x" * 100)
            await stage.engine.settle([(claimed, Succeed())])
            stage.fake.advance(1)
        await Pruner(stage.store, stage.clock, Retention(output=250)).step()
        sizes = [(await stage.engine.read_output(task, "stdout")).size for task in ids]
        assert sizes == [0, 100, 100]

    play(scenario)


def test_a_retention_of_nothing_asks_for_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await Pruner(stage.store, stage.clock, Retention(None, None)).step()
        assert stage.store.asked["tend"] == 0

    play(scenario)


def test_what_is_left_over_is_released_until_nothing_is() -> None:
    async def scenario(stage: Stage) -> None:
        replies = [Tended(5, True, []), Tended(5, True, []), Tended(1, False, [])]

        class Leftover(Recording):
            async def tend(self, _: object) -> Tended:
                self.asked["tend"] += 1
                return replies.pop(0) if replies else Tended(0, False, [])

        store = Leftover(stage.memory)
        chore = Releaser(store, stage.clock)
        await chore.start()
        await settle_down()
        assert (store.asked["tend"], replies) == (3, [])
        await chore.stop()

    play(scenario)


def test_the_loops_take_back_and_promote_by_themselves() -> None:
    async def scenario(stage: Stage) -> None:
        waits = await stage.engine.queues.create("waits", by="test")
        (due,) = await stage.submit_many(1, queue=waits.id, delay=50)
        (lost,) = await stage.submit_many(1)
        silent = await stage.join("silent", lease=100)
        await stage.take_one(silent, start=True)
        service = keep_up(stage.store, stage.clock)
        await service.start()
        async with aclosing(stage.engine.subscribe(Position(0))) as events:
            async for _ in events:
                if await stage.status(due) == await stage.status(lost) == Status.QUEUED:
                    break
        await service.drain()

    play(scenario, clock=SystemClock())


def test_idle_loops_ask_the_store_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        service = keep_up(stage.store, stage.clock)
        await service.start()
        await settle_down()
        stage.store.asked.clear()
        await settle_down(500)
        assert not stage.store.asked
        await service.drain()
        assert service.state is ServiceState.STOPPED

    play(scenario)


def test_a_busy_store_is_not_asked_with_every_commit() -> None:
    async def scenario(stage: Stage) -> None:
        service = keep_up(stage.store, stage.clock)
        await service.start()
        await settle_down()
        stage.store.asked.clear()
        for _ in range(200):
            await stage.submit_many(1)
            await asyncio.sleep(0)
        assert stage.store.asked["tend"] <= 8
        await service.stop()

    play(scenario, clock=SystemClock())


def test_only_the_leader_does_upkeep() -> None:
    class Gate:
        leading = False
        asked = 0

        async def leads(self) -> bool:
            self.asked += 1
            return self.leading

    async def scenario(stage: Stage) -> None:
        gate = Gate()
        chore = Promoter(stage.store, stage.clock, gate=gate)
        await chore.start()
        await settle_down()
        assert (stage.store.asked["tend"], gate.asked) == (0, 1)
        gate.leading = True
        await stage.submit_many(1)
        await settle_down()
        assert stage.store.asked["tend"] == 1
        await chore.stop()

    play(scenario)


def test_a_reaper_that_was_away_gives_everybody_the_time_of_one_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    monkeypatch.setattr(upkeep, "LONGEST_GRACE", 50)

    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        claimed = await stage.take_one()
        chore = reaper(stage, telemetry=told)
        await chore.start()
        await settle_down()
        stage.fake.advance(29_000)
        await stage.engine.nodes.beat(stage.node.id, "token of ada")
        stage.fake.advance(29_000)
        stage.store.asked.clear()
        await stage.submit_many(1)
        assert await told.until("reaper_was_away") == {"milliseconds": 28_000, "grace": 50}
        assert stage.store.asked["tend"] == 0
        await stage.engine.nodes.beat(stage.node.id, "token of ada")
        stage.store.gates["tend"] = asyncio.Event()
        stage.store.gates["tend"].set()
        stage.store.entered.clear()
        await stage.store.entered.wait()
        assert await stage.status(task) == Status.CLAIMED
        assert (await stage.engine.settle([(claimed, Release())])).refused == []
        await chore.stop()

    play(scenario)
