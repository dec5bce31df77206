"""Nodes register, beat, drain and leave."""

from typing import Any

import pytest

from ganger.core.errors import BadInput, BadName, BadNumber, NodeGone, NodeNotFound, NodeTaken
from ganger.core.ids import Position
from ganger.core.node import NodeState, Registration, Vitals
from ganger.core.state import Status
from ganger.engine.nodes import InHand
from tests.unit.engine.stage import Stage, play


def test_a_second_live_node_of_one_name_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(NodeTaken):
            await stage.engine.nodes.register(Registration("ada", "another token"))
        assert (await stage.join("ada")).id == stage.node.id

    play(scenario)


def test_a_beat_renews_what_lives_by_it_and_tells_what_is_to_be_killed() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        claimed = await stage.take_one()
        await stage.engine.kill([task], by="test")
        for _ in range(5):
            stage.fake.advance(20_000)
            beaten = await stage.engine.nodes.beat(stage.node.id, "token of ada")
        assert beaten.kills == (task,)
        assert await stage.engine.start([claimed.lease]) == []

    play(scenario)


def test_a_node_that_was_silent_too_long_must_register_anew() -> None:
    async def scenario(stage: Stage) -> None:
        stage.fake.advance(30_001)
        with pytest.raises(NodeGone):
            await stage.engine.nodes.beat(stage.node.id, "token of ada")
        assert stage.engine.nodes.peek(stage.node.id) is None
        assert (await stage.join("ada")).id != stage.node.id

    play(scenario)


def test_a_draining_node_settles_but_takes_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(2)
        claimed = await stage.take_one()
        assert (await stage.engine.nodes.drain("ada", by="test")).state == NodeState.DRAINING
        with pytest.raises(NodeGone):
            await stage.take()
        assert await stage.engine.start([claimed.lease]) == []

    play(scenario)


def test_what_each_node_runs_and_has_only_claimed_is_counted_by_its_leases() -> None:
    async def scenario(stage: Stage) -> None:
        other = await stage.join("bob")
        await stage.submit_many(1_105)
        await stage.take(1_101)
        await stage.engine.start([(await stage.take_one()).lease])
        await stage.take(2, other, start=True)

        in_hand = await stage.engine.nodes.in_hand([stage.node, other])

        assert in_hand == {stage.node.id: InHand(running=1, claimed=1_101), other.id: InHand(running=2)}
        assert in_hand[stage.node.id].total == 1_102

    play(scenario)


def test_an_operator_drains_a_node_by_its_name_and_resumes_it() -> None:
    async def scenario(stage: Stage) -> None:
        before = (await stage.engine.verify_audit()).lines
        assert (await stage.engine.nodes.drain("ada", by="eve")).state == NodeState.DRAINING
        assert (await stage.engine.nodes.resume("ada", by="eve")).state == NodeState.ACTIVE
        lines = await stage.store.audit(Position(before))
        assert [(line.who, line.action, line.detail) for line in lines] == [
            ("eve", "node.drain", '{"name":"ada"}'), ("eve", "node.resume", '{"name":"ada"}'),
        ]  # fmt: skip
        await stage.submit_many(1)
        assert len(await stage.take()) == 1

    play(scenario)


@pytest.mark.parametrize("leaves", [True, False])
def test_a_node_that_is_not_here_can_be_neither_drained_nor_resumed(leaves: bool) -> None:
    async def scenario(stage: Stage) -> None:
        if leaves:
            await stage.engine.nodes.leave(stage.node.id, "token of ada")
        else:
            stage.fake.advance(30_001)
        for name in ("ada", "nobody"):
            for operate in (stage.engine.nodes.drain, stage.engine.nodes.resume):
                with pytest.raises(NodeNotFound, match="see `ganger nodes`"):
                    await operate(name, by="eve")

    play(scenario)


def test_how_a_node_is_is_told_with_its_beat_and_cut() -> None:
    async def scenario(stage: Stage) -> None:
        told = Vitals(4, 1, 3, 0.5, 10, 20, "x" * 100_000)
        await stage.engine.nodes.beat(stage.node.id, "token of ada", vitals=told)
        (node,) = await stage.engine.nodes.all()
        assert node.vitals is not None
        assert node.vitals[:6] == told[:6]
        assert len(node.vitals.trouble) == stage.engine.limits.reason

    play(scenario)


def test_what_a_node_held_when_it_left_is_stale() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        claimed = await stage.take_one()
        await stage.engine.nodes.leave(stage.node.id, "token of ada")
        assert await stage.engine.start([claimed.lease]) == [(0, "stale")]
        assert await stage.status(task) == Status.CLAIMED

    play(scenario)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "a\nb"}, BadName),
        ({"token": ""}, BadInput),
        ({"token": "x" * 300}, BadInput),
        ({"lease": 5}, BadNumber),
        ({"slots": -1}, BadNumber),
        ({"kinds": ("elf",)}, BadInput),
        ({"queues": ("",)}, BadName),
        ({"labels": ("\0",)}, BadName),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(error):
            await stage.engine.nodes.register(Registration("bob", "token")._replace(**fields))
        with pytest.raises(BadNumber):
            await stage.engine.nodes.beat(stage.node.id, "token of ada", lease=1)

    play(scenario)


def test_all_nodes_are_listed_with_what_they_say() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.join("bob", labels=("gpu",))
        assert [(node.name, node.labels) for node in await stage.engine.nodes.all()] == [("ada", ()), ("bob", ("gpu",))]

    play(scenario)
