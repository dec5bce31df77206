"""Queues: found by name, never guessed, changed with a line in the audit log."""

import asyncio
from typing import Any

import pytest

from ganger.core.errors import BadName, BadNumber, BadPolicy, QueueAmbiguous, QueueInUse, QueueNotFound
from ganger.core.graph import Edge
from ganger.core.ids import Position, QueueId
from ganger.core.outcome import Succeed
from ganger.core.queue import FOREVER, Policy
from ganger.core.state import Status
from ganger.engine.engine import Engine
from ganger.engine.limits import Limits
from ganger.engine.store import Configure
from ganger.testing.clock import SeededEntropy
from tests.unit.engine.stage import Stage, play


def test_a_name_is_answered_from_memory_until_queues_change() -> None:
    async def scenario(stage: Stage) -> None:
        queues = stage.engine.queues
        await queues.named("mail")
        stage.store.asked.clear()
        assert (await queues.named("mail")).id == stage.queue.id
        assert not stage.store.asked
        await queues.rename(stage.queue.id, "post", by="test")
        assert (await queues.named("post")).id == stage.queue.id
        with pytest.raises(QueueNotFound, match="create it first"):
            await queues.named("mail")

    play(scenario)


def test_a_queue_that_another_engine_made_is_found() -> None:
    async def scenario(stage: Stage) -> None:
        other = Engine(stage.memory, stage.clock, SeededEntropy(3))
        await stage.engine.queues.all()
        stage.store.deaf = True
        made = await other.queues.create("late", by="test")
        assert (await stage.engine.queues.named("late")).id == made.id
        assert (await stage.engine.queues.get(made.id)).name == "late"
        await other.close()

    play(scenario)


def test_a_change_while_the_queues_are_read_is_not_forgotten() -> None:
    async def scenario(stage: Stage) -> None:
        stage.store.gates["directory"] = gate = asyncio.Event()
        reading = asyncio.create_task(stage.engine.queues.all())
        await stage.store.entered.wait()
        other = Engine(stage.memory, stage.clock, SeededEntropy(3))
        await other.queues.rename(stage.queue.id, "post", by="test")
        gate.set()
        assert [queue.name for queue in await reading] == ["mail"]
        assert [queue.name for queue in await stage.engine.queues.all()] == ["post"]
        await other.close()

    play(scenario)


def test_a_name_with_two_bearers_is_refused_with_both_ids() -> None:
    async def scenario(stage: Stage) -> None:
        second = await stage.engine.queues.create("mail", by="test")
        with pytest.raises(QueueAmbiguous) as caught:
            await stage.engine.queues.named("mail")
        assert caught.value.fields["ids"] == [stage.queue.id, second.id]

    play(scenario)


def test_a_queue_is_ensured_once_however_many_ask_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        others = [Engine(stage.memory, stage.clock, SeededEntropy(n)) for n in range(3)]
        engines = [stage.engine, *others]
        made = await asyncio.gather(*(engine.queues.ensure("new", by="test") for engine in engines for _ in range(3)))
        assert len({queue.id for queue in made}) == 1
        assert [queue.name for queue in await stage.engine.queues.all()] == ["mail", "new"]
        for engine in others:
            await engine.close()

    play(scenario)


def test_of_two_queues_made_at_once_the_first_stays() -> None:
    async def scenario(stage: Stage) -> None:
        other = Engine(stage.memory, stage.clock, SeededEntropy(3))
        stage.store.doors["configure"] = door = asyncio.Event()
        ensuring = asyncio.create_task(stage.engine.queues.ensure("new", by="test"))
        await stage.store.entered.wait()
        first = await other.queues.create("new", by="test")
        door.set()
        assert (await ensuring).id == first.id
        assert len([queue for queue in await other.queues.all() if queue.name == "new"]) == 1
        await other.close()

    play(scenario)


def test_a_pause_ends_by_itself_or_lasts_until_it_is_resumed() -> None:
    async def scenario(stage: Stage) -> None:
        queues = stage.engine.queues
        await stage.submit_many(2)
        paused = await queues.pause(stage.queue.id, 5_000, by="test")
        assert paused.paused_until == stage.clock.wall() + 5_000
        assert await stage.take() == []
        stage.fake.advance(5_000)
        assert len(await stage.take()) == 1
        assert (await queues.pause(stage.queue.id, by="test")).paused_until == FOREVER
        assert await stage.take() == []
        await queues.resume(stage.queue.id, by="test")
        assert len(await stage.take()) == 1

    play(scenario)


def test_a_queue_in_use_is_deleted_only_when_its_tasks_are_dropped() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1)
        with pytest.raises(QueueInUse):
            await stage.engine.queues.delete(stage.queue.id, by="test")
        await stage.engine.queues.delete(stage.queue.id, by="test", drop=True)
        with pytest.raises(QueueNotFound):
            await stage.engine.queues.get(stage.queue.id)

    play(scenario)


def test_a_large_queue_is_emptied_in_steps_before_it_goes() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(2_500)
        other = await stage.engine.queues.create("other", by="ann")
        (heir,) = await stage.submit(stage.task(queue=other.id, parents=(Edge(ids[-1]),)))
        await stage.engine.settle([(await stage.take_one(), Succeed())])
        before = (await stage.engine.events(Position(0), 10_000))[-1].position
        await stage.engine.queues.delete(stage.queue.id, by="ann", drop=True)
        told = [event for event in await stage.engine.events(before, 10_000) if event.queue == stage.queue.id]
        assert max(len(event.entries) for event in told) <= 1_000
        with pytest.raises(QueueNotFound):
            await stage.engine.queues.get(stage.queue.id)
        assert (await stage.engine.tasks([ids[0], ids[-1]])) == [None, None]
        assert await stage.status(heir) == Status.CANCELLED
        assert (await stage.audit_actions())[-2:] == ["queue.pause", "queue.delete"]

    play(scenario, limits=Limits(queue_at_once=1_000))


def test_a_large_queue_in_use_is_left_as_it_is() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1_001)
        await stage.take()
        for drop in (False, True):
            with pytest.raises(QueueInUse):
                await stage.engine.queues.delete(stage.queue.id, by="ann", drop=drop)
        (tally,) = [tally for tally in (await stage.engine.counts())[0] if tally.queue == stage.queue.id]
        assert tally.by_status[Status.QUEUED] == 1_000
        assert not (await stage.engine.queues.get(stage.queue.id)).paused_until

    play(scenario, limits=Limits(queue_at_once=1_000))


def test_a_large_queue_that_gets_a_task_while_it_is_emptied_stays_and_is_handed_out() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(1_001)
        await stage.engine.cancel(ids, by="ann")
        configure = stage.memory.configure

        async def submit_first(request: Configure) -> Any:
            if request.queue is not None and request.queue.delete:
                await stage.submit_many(1)
            return await configure(request)

        stage.store.configure = submit_first  # type: ignore[attr-defined]
        with pytest.raises(QueueInUse):
            await stage.engine.queues.delete(stage.queue.id, by="ann")
        assert not (await stage.engine.queues.get(stage.queue.id)).paused_until
        assert len(await stage.take()) == 1

    play(scenario, limits=Limits(queue_at_once=1_000))


@pytest.mark.parametrize("name", ["", " x", "a\nb", "x" * 10_000])
def test_a_bad_name_is_refused(name: str) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(BadName):
            await stage.engine.queues.create(name, by="test")
        with pytest.raises(BadName):
            await stage.engine.queues.rename(stage.queue.id, name, by="test")

    play(scenario)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"max_active": -1}, BadNumber),
        ({"batch_size": 0}, BadNumber),
        ({"sort": "random"}, BadPolicy),
        ({"on_lost": "weep"}, BadPolicy),
        ({"retry": "twice"}, BadPolicy),
        ({"plugin": "a\nb"}, BadName),
        ({"pin": ("\n",)}, BadName),
        ({"becomes": QueueId(99)}, QueueNotFound),
    ],
)
def test_a_bad_policy_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(error):
            await stage.engine.queues.change(stage.queue.id, Policy(**fields), by="test")

    play(scenario)


def test_a_pause_of_a_negative_length_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(BadNumber):
            await stage.engine.queues.pause(stage.queue.id, -1, by="test")

    play(scenario)


def test_every_change_of_a_queue_is_in_the_audit_log() -> None:
    async def scenario(stage: Stage) -> None:
        queues, queue = stage.engine.queues, stage.queue.id
        await queues.change(queue, Policy(max_active=3), by="ann")
        await queues.rename(queue, "post", by="ann")
        await queues.pause(queue, by="ann")
        await queues.resume(queue, by="ann")
        await queues.delete(queue, by="ann")
        assert await stage.audit_actions() == [
            "queue.create", "queue.change", "queue.rename", "queue.pause", "queue.resume", "queue.delete",
        ]  # fmt: skip
        assert (await stage.engine.verify_audit()).lines == 6

    play(scenario)
