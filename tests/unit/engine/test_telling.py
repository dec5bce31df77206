"""Facts about tasks are told to the telemetry, each with the task's id."""

import asyncio
from collections.abc import Callable

from ganger.core.event import Event
from ganger.core.outcome import Fail
from ganger.engine.telling import Telling, all_of_them
from tests.unit.engine.stage import Stage, play


class Told:
    """Telemetry that wakes whoever waits for an event."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []
        self._came = asyncio.Event()

    def event(self, name: str, **fields: object) -> None:
        self.events.append((name, fields))
        self._came.set()

    async def until(self, name: str) -> dict[str, object]:
        while not (found := [fields for told, fields in self.events if told == name]):
            self._came.clear()
            await self._came.wait()
        return found[-1]


def follow(stage: Stage, told: Told, wanted: Callable[[Event], bool] = all_of_them) -> Telling:
    return Telling(stage.engine, told, wanted)


def test_every_fact_of_a_task_is_told_with_its_id() -> None:
    async def scenario(stage: Stage) -> None:
        told = Told()
        telling = follow(stage, told)
        await telling.start()
        await told.until("service_started")
        await asyncio.sleep(0)
        (task,) = await stage.submit_many(1)
        await told.until("task_submitted")
        await stage.engine.settle([(await stage.take_one(), Fail(7, "no\nluck"))])
        ended = await told.until("task_settled")
        assert (ended["task"], ended["queue"], ended["status"]) == (task, "mail", "failed")
        assert (ended["reason"], ended["holder"]) == ("no\nluck", stage.node.id)
        await telling.stop()

    play(scenario)


def test_a_node_tells_what_it_held_alone() -> None:
    async def scenario(stage: Stage) -> None:
        told, other = Told(), await stage.join("bob")
        telling = follow(stage, told, lambda event: event.holder == stage.node.id)
        await telling.start()
        await stage.submit_many(2)
        theirs, ours = await stage.take_one(other), await stage.take_one()
        await stage.engine.settle([(theirs, Fail(2, "x"))])
        await stage.engine.settle([(ours, Fail(2, "x"))])
        await told.until("task_settled")
        assert {fields["task"] for name, fields in told.events if name.startswith("task_")} == {ours.id}
        await telling.stop()

    play(scenario)
