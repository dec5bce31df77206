"""Claims: what nobody takes away goes back."""

import asyncio
from typing import Any

import pytest

from ganger.core.errors import BadInput, BadNumber, NodeGone
from ganger.core.ids import NodeId
from ganger.core.outcome import Succeed
from ganger.core.state import Status
from ganger.engine.store import Claim
from tests.unit.engine.stage import Stage, play, settle_down


def test_a_claim_gives_the_best_first_and_no_more_than_asked() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit(stage.task(priority=9), stage.task(priority=1), stage.task(priority=5))
        assert [one.id for one in await stage.take(2)] == [ids[1], ids[2]]

    play(scenario)


def test_named_ids_are_claimed_for_a_named_holder() -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(3)
        claimed = await stage.engine.claim(Claim(stage.node.id, ids=(ids[2],)))
        assert [(one.id, one.holder) for one in claimed] == [(ids[2], stage.node.id)]

    play(scenario)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"queues": ()}, BadInput),
        ({"most": 0}, BadNumber),
        ({"most": True}, BadNumber),
        ({"most": 10_001}, BadNumber),
        ({"length": 10}, BadNumber),
    ],
)
def test_a_claim_that_makes_no_sense_is_refused(fields: dict[str, Any], error: type[Exception]) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(error):
            await stage.engine.claim(stage.ask()._replace(**fields))

    play(scenario)


def test_a_claim_of_ids_cannot_wait() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(BadInput, match="only a claim of queues"):
            await stage.engine.wait_claim(stage.ask(ids=(1,)))

    play(scenario)


def test_a_holder_that_never_registered_gets_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(NodeGone):
            await stage.engine.claim(stage.ask()._replace(holder=NodeId(99)))
        with pytest.raises(NodeGone):
            await stage.engine.wait_claim(stage.ask()._replace(holder=NodeId(99)))

    play(scenario)


@pytest.mark.parametrize("settles", [False, True])
def test_what_a_cancelled_claim_leased_is_given_back(settles: bool) -> None:
    async def scenario(stage: Stage) -> None:
        first, second = await stage.submit_many(2)
        held = await stage.take_one()
        stage.store.gates["exchange"] = asyncio.Event()
        stage.store.entered.clear()
        call = stage.engine.settle([(held, Succeed())], stage.ask()) if settles else stage.engine.claim(stage.ask())
        asking = asyncio.create_task(call)
        await stage.store.entered.wait()
        assert await stage.status(second) == Status.CLAIMED
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        stage.store.gates.pop("exchange").set()
        await settle_down()
        assert await stage.status(second) == Status.QUEUED
        assert await stage.status(first) == (Status.SUCCEEDED if settles else Status.CLAIMED)

    play(scenario)


def test_what_was_claimed_for_several_is_given_back_if_their_caller_is_cancelled() -> None:
    async def scenario(stage: Stage) -> None:
        first, second, third, fourth = await stage.submit_many(4)
        held = await stage.take(2)
        stage.store.gates["exchange"] = asyncio.Event()
        stage.store.entered.clear()
        asking = asyncio.create_task(stage.engine.settle_each([(one, Succeed(), stage.ask()) for one in held]))
        await stage.store.entered.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        stage.store.gates.pop("exchange").set()
        await settle_down()
        statuses = [await stage.status(task) for task in (first, second, third, fourth)]
        assert statuses == [Status.SUCCEEDED, Status.SUCCEEDED, Status.QUEUED, Status.QUEUED]

    play(scenario)


def test_closing_waits_until_everything_is_given_back() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        gate = stage.store.gates["exchange"] = asyncio.Event()
        asking = asyncio.create_task(stage.engine.claim(stage.ask()))
        await stage.store.entered.wait()
        asking.cancel()
        closing = asyncio.create_task(stage.engine.close())
        await settle_down()
        assert not closing.done()
        gate.set()
        await closing
        assert await stage.status(task) == Status.QUEUED

    play(scenario)
