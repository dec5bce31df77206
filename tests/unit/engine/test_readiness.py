"""Is work being taken: asked from outside, of nodes and of what waits."""

import pytest

from ganger.core.node import Vitals
from ganger.engine.readiness import LINE, LONG, Readiness
from tests.unit.engine.stage import Stage, play

TOKEN = "token of ada"
FREE = Vitals(slots=2, used=1)


async def beat(stage: Stage, vitals: Vitals) -> None:
    await stage.engine.nodes.beat(stage.node.id, TOKEN, vitals=vitals)


def test_a_node_that_takes_tasks_is_ready() -> None:
    async def scenario(stage: Stage) -> None:
        await beat(stage, FREE)
        assert await stage.engine.readiness() == [Readiness("ada", True)]
        assert await stage.engine.readiness("somebody else") == []

    play(scenario)


def test_a_node_that_is_silent_drains_or_says_that_it_takes_nothing_is_not_ready() -> None:
    async def scenario(stage: Stage) -> None:
        await beat(stage, FREE._replace(trouble="nothing can be claimed: away"))
        assert await stage.engine.readiness() == [Readiness("ada", False, "nothing can be claimed: away")]
        await stage.engine.nodes.drain("ada", by="test")
        assert await stage.engine.readiness("ada") == [Readiness("ada", False, "it drains")]
        stage.fake.advance(30_001)
        assert await stage.engine.readiness() == [Readiness("ada", False, "its beats have stopped")]

    play(scenario)


@pytest.mark.parametrize(("age", "vitals", "is_stuck"), [
    (LONG + 1, FREE, True), (LONG, FREE, False), (LONG + 1, Vitals(slots=2, used=2), False),
])  # fmt: skip
def test_a_task_that_lies_ready_for_long_beside_a_free_slot_is_told(age: int, vitals: Vitals, is_stuck: bool) -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        stage.fake.advance(age)
        await beat(stage, vitals)
        found = [one for one in await stage.engine.readiness() if one.what == LINE]
        assert [one.is_ready for one in found] == [False] * is_stuck
        assert all(f"task {task} has been ready for 10 s" in one.why for one in found)

    play(scenario)


def test_a_task_that_waits_for_good_reason_is_not_told() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit(stage.task(requires=("a label that nobody has",)))
        stage.fake.advance(LONG + 1)
        await beat(stage, FREE)
        assert await stage.engine.readiness() == [Readiness("ada", True)]

    play(scenario)
