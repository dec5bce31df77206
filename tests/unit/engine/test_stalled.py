"""A wait that is not to outlast a hold ends when nothing but held tasks can end it."""

import asyncio

import pytest

from ganger.core.graph import Edge
from ganger.core.outcome import Succeed
from ganger.core.state import Status
from ganger.core.task import Kind
from ganger.engine.stalled import find_held
from ganger.engine.wait import Waited
from tests.unit.engine.stage import Stage, play, settle_down


def test_a_task_far_below_a_held_one_is_not_waited_for() -> None:
    async def scenario(stage: Stage) -> None:
        first, middle, last = await stage.submit(
            stage.task(), stage.task(parents=(Edge(-1),)), stage.task(parents=(Edge(-2),))
        )
        waiting = asyncio.create_task(stage.engine.wait([last], until_held=True))
        await settle_down()
        assert not waiting.done()
        await stage.engine.hold([first], by="test")
        assert await waiting == Waited([Status.BLOCKED], False, (first,))
        assert (await stage.engine.wait([middle, last], until_held=True)).held == (first,)

    play(scenario)


def test_it_is_waited_for_while_another_of_its_parents_goes_on() -> None:
    async def scenario(stage: Stage) -> None:
        held, other, child = await stage.submit(
            stage.task(), stage.task(), stage.task(parents=(Edge(-1), Edge(-2)))
        )  # fmt: skip
        await stage.engine.hold([held], by="test")
        waiting = asyncio.create_task(stage.engine.wait([child], until_held=True))
        await settle_down()
        assert not waiting.done()
        await stage.engine.settle([(await stage.take_one(), Succeed())])
        assert (await waiting).held == (held,)
        assert await stage.status(other) == Status.SUCCEEDED

    play(scenario)


def test_it_is_waited_for_again_when_the_held_one_was_kicked() -> None:
    async def scenario(stage: Stage) -> None:
        parent, child = await stage.submit(stage.task(), stage.task(parents=(Edge(-1),)))
        await stage.engine.hold([parent], by="test")
        await stage.engine.kick([parent], by="test")
        waiting = asyncio.create_task(stage.engine.wait([child], until_held=True))
        for _ in (parent, child):
            await stage.engine.settle([(await stage.take_one(), Succeed())])
        assert await waiting == Waited([Status.SUCCEEDED], True)

    play(scenario)


def test_a_group_waits_for_held_members_at_any_depth() -> None:
    async def scenario(stage: Stage) -> None:
        outer, inner, held, behind = await stage.submit(
            stage.task(Kind.GROUP), stage.task(Kind.GROUP, group=-1), stage.task(group=-2),
            stage.task(group=-1, parents=(Edge(-3),)),
        )  # fmt: skip
        await stage.engine.hold([held], by="test")
        assert await find_held(stage.store, [outer]) == [held]
        assert await find_held(stage.store, [inner, behind]) == [held]

    play(scenario)


@pytest.mark.parametrize("kind", [Kind.CONDITION, Kind.FUNCTION])
def test_what_is_asked_or_ready_beside_a_held_one_goes_on(kind: str) -> None:
    async def scenario(stage: Stage) -> None:
        group, held, _ = await stage.submit(
            stage.task(Kind.GROUP), stage.task(group=-1), stage.task(kind, group=-1, spec=b'{"after": 3600000}')
        )
        await stage.engine.hold([held], by="test")
        assert await find_held(stage.store, [group]) == []

    play(scenario)


def test_a_group_that_is_open_for_more_goes_on() -> None:
    async def scenario(stage: Stage) -> None:
        (group,) = await stage.submit(stage.task(Kind.GROUP, open_group=True))
        (held,) = await stage.submit(stage.task(group=group))
        await stage.engine.hold([held], by="test")
        assert await find_held(stage.store, [group]) == []

    play(scenario)


def test_a_cascade_of_very_many_is_looked_at_a_bounded_number_of_times() -> None:
    async def scenario(stage: Stage) -> None:
        parent, *children = await stage.submit(stage.task(), *(stage.task(parents=(Edge(-1),)) for _ in range(2_000)))
        await stage.engine.hold([parent], by="test")
        assert await find_held(stage.store, children) == [parent]
        assert stage.store.asked["look"] <= 500

    play(scenario)


def test_those_who_wait_behind_nothing_held_ask_nothing_while_nothing_happens() -> None:
    async def scenario(stage: Stage) -> None:
        parent, *children = await stage.submit(stage.task(), *(stage.task(parents=(Edge(-1),)) for _ in range(20)))
        waiting = [asyncio.create_task(stage.engine.wait([child], until_held=True)) for child in children]
        await settle_down(500)
        stage.store.asked.clear()
        await settle_down()
        assert not stage.store.asked
        await stage.engine.cancel([parent], by="test")
        assert all(one.done for one in await asyncio.gather(*waiting))

    play(scenario)
