"""Settling: one step with the next claim, nothing from a lost lease, and the law of outcomes in between."""

import asyncio

import pytest

from ganger.core.errors import BadNumber, NodeGone, PayloadTooLarge, StaleLease, TaskNotFound, WrongStatus
from ganger.core.graph import Edge, On
from ganger.core.ids import Fence, TaskId
from ganger.core.lease import Lease
from ganger.core.outcome import Crashed, Fail, Hold, Killed, Release, Succeed
from ganger.core.queue import OnLost
from ganger.core.retry import Fixed, Retry, to_text
from ganger.core.state import Status, Verdict
from ganger.core.task import Kind
from ganger.engine.limits import Limits
from ganger.engine.settle import Settled
from ganger.engine.witness import SettleCommitted
from tests.unit.engine.stage import Stage, play, settle_down
from tests.unit.engine.test_submit import Slow


def test_settling_and_claiming_the_next_is_one_step_of_the_store_and_no_read() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(20)
        batch = await stage.take(10, start=True)
        stage.store.asked.clear()
        settled = await stage.engine.settle([(one, Succeed(b"ok")) for one in batch], stage.ask(10, start=True))
        assert stage.store.asked == {"exchange": 1}
        assert (settled.refused, len(settled.claimed)) == ([], 10)
        assert {await stage.status(one.id) for one in batch} == {Status.SUCCEEDED}

    play(scenario)


def test_what_several_holders_have_done_is_settled_by_one_call_and_each_gets_its_own_next() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(4)
        nodes = [stage.node, await stage.join("bob")]
        held = [await stage.take_one(node) for node in nodes]
        items = [(one, Succeed(b"ok"), stage.ask(1, node)) for one, node in zip(held, nodes, strict=True)]
        replies = await stage.engine.settle_each(items)
        assert [await stage.status(one.id) for one in held] == [Status.SUCCEEDED] * 2
        claimed = [one for reply in replies if isinstance(reply, Settled) for one in reply.claimed]
        assert [one.holder for one in claimed] == [node.id for node in nodes]
        assert len({one.id for one in claimed} | {one.id for one in held}) == 4

    play(scenario)


def test_one_holder_that_is_gone_takes_nothing_from_the_others_that_settle_with_it() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(3)
        bob = await stage.join("bob")
        first, second = await stage.take_one(), await stage.take_one(bob)
        await stage.engine.nodes.drain("bob", by="test")
        items = [(second, Succeed(), stage.ask(1, bob)), (first, Succeed(), stage.ask())]
        gone, settled = await stage.engine.settle_each(items)
        assert isinstance(gone, NodeGone)
        assert isinstance(settled, Settled)
        assert (await stage.status(first.id), await stage.status(second.id)) == (Status.SUCCEEDED, Status.CLAIMED)
        assert len(settled.claimed) == 1

    play(scenario)


def test_what_is_settled_together_is_witnessed_each_by_itself() -> None:
    witness = Slow()

    async def scenario(stage: Stage) -> None:
        witness.go_on.set()
        await stage.submit_many(2)
        await stage.engine.settle_each([(one, Succeed(), stage.ask()) for one in await stage.take(2)])

    play(scenario, witness=witness)
    assert [len(seen.request.moves) for seen in witness.seen if isinstance(seen, SettleCommitted)] == [1, 1]


def test_a_stale_outcome_is_refused_and_the_others_are_stored() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(3)
        first, second, third = await stage.take(3)
        stale = second._replace(fence=Fence(second.fence - 1))
        settled = await stage.engine.settle([(first, Succeed()), (stale, Succeed()), (third, Fail())])
        assert settled.refused == [(1, Verdict.STALE)]
        assert await stage.status(second.id) == Status.CLAIMED
        again = await stage.engine.settle([(first, Succeed())])
        assert again.refused == [(0, Verdict.STALE)]

    play(scenario)


def test_a_failure_is_retried_by_the_policy_of_its_queue() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.set_policy(retry=to_text(Retry(2, Fixed(1_000), sink=5)))
        (task,) = await stage.submit_many(1)
        await stage.engine.settle([(await stage.take_one(), Fail(7, "first"))])
        seen = await stage.get(task)
        assert (seen.status, seen.attempts, seen.priority, seen.reason) == (Status.DELAYED, 1, 1029, "first")
        stage.fake.advance(1_000)
        settled = await stage.engine.settle([(await stage.take_one(), Fail(7, "second"))])
        assert settled.refused == []
        assert await stage.status(task) == 7

    play(scenario)


def test_a_crash_in_an_orphaning_queue_is_not_repeated() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.set_policy(on_lost=OnLost.ORPHAN)
        (task,) = await stage.submit_many(1)
        await stage.engine.settle([(await stage.take_one(), Crashed("signal 11"))])
        assert await stage.status(task) == Status.ORPHANED

    play(scenario)


def test_a_poison_task_is_held_after_three_crashes() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        for _ in range(3):
            await stage.engine.settle([(await stage.take_one(), Crashed("signal 11"))])
        seen = await stage.get(task)
        assert (seen.status, seen.crashes, seen.attempts) == (Status.HELD, 3, 0)
        assert await stage.take() == []

    play(scenario)


def test_a_lease_alone_is_enough_to_settle_and_to_retry() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.set_policy(retry=to_text(Retry(2, Fixed(0))))
        (task,) = await stage.submit_many(1)
        lease = (await stage.take_one()).lease
        await stage.engine.settle_by_lease(lease, Fail(3))
        seen = await stage.get(task)
        assert (seen.status, seen.attempts, seen.priority) == (Status.QUEUED, 1, 1025)
        lease = (await stage.take_one()).lease
        await stage.engine.settle_by_lease(lease, Fail(3))
        assert await stage.status(task) == 3

    play(scenario)


@pytest.mark.parametrize("outcome", [Succeed(), Release(), Hold(), Killed()])
def test_outcomes_without_a_history_are_settled_by_lease_without_a_read(outcome: Succeed) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1)
        lease = (await stage.take_one()).lease
        stage.store.asked.clear()
        await stage.engine.settle_by_lease(lease, outcome)
        assert stage.store.asked == {"exchange": 1}
        with pytest.raises(StaleLease, match="has ended"):
            await stage.engine.settle_by_lease(lease, outcome)

    play(scenario)


def test_a_lease_of_a_task_that_never_was_is_not_found() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(TaskNotFound):
            await stage.engine.settle_by_lease(Lease(TaskId(99), Fence(1), stage.node.id), Fail())

    play(scenario)


def test_a_release_gives_the_task_back_after_its_delay_with_its_new_priority() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        await stage.engine.release((await stage.take_one()).lease, 5_000, 3)
        seen = await stage.get(task)
        assert (seen.status, seen.priority, seen.releases, seen.attempts) == (Status.DELAYED, 3, 1, 0)
        assert await stage.take() == []
        stage.fake.advance(5_000)
        assert (await stage.take_one()).id == task

    play(scenario)


def test_a_reason_that_no_store_could_keep_does_not_lose_the_failure() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        await stage.engine.settle([(await stage.take_one(), Fail(2, "\0 \ud800 " + "x" * 20_000))])
        seen = await stage.get(task)
        assert seen.status == Status.FAILED
        assert seen.reason is not None
        assert seen.reason.startswith("\N{REPLACEMENT CHARACTER} ? x")
        assert len(seen.reason) <= Limits().reason

    play(scenario)


def test_a_result_over_the_limit_is_refused_before_anything_is_stored() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(2)
        first, second = await stage.take(2)
        with pytest.raises(PayloadTooLarge, match="blob"):
            await stage.engine.settle([(first, Succeed()), (second, Succeed(b"x" * 101))])
        assert await stage.status(first.id) == Status.CLAIMED

    play(scenario, limits=Limits(payload=100))


def test_an_impossible_failure_code_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1)
        with pytest.raises(BadNumber):
            await stage.engine.settle([(await stage.take_one(), Fail(1))])

    play(scenario)


def test_moves_of_a_node_that_drains_are_stored_but_its_claim_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(2)
        claimed = await stage.take_one()
        await stage.engine.nodes.drain("ada", by="test")
        with pytest.raises(NodeGone):
            await stage.engine.settle([(claimed, Succeed())], stage.ask())
        assert (await stage.engine.settle([(claimed, Succeed())])).refused == []

    play(scenario)


def test_a_settle_is_acknowledged_only_when_it_was_witnessed() -> None:
    witness = Slow()

    async def scenario(stage: Stage) -> None:
        witness.go_on.set()
        await stage.submit_many(1)
        claimed = await stage.take_one()
        witness.go_on.clear()
        witness.called.clear()
        settling = asyncio.create_task(stage.engine.settle([(claimed, Succeed())]))
        await witness.called.wait()
        assert isinstance(witness.seen[-1], SettleCommitted)
        assert await stage.status(claimed.id) == Status.SUCCEEDED
        assert not settling.done()
        witness.go_on.set()
        await settling

    play(scenario, witness=witness)


def test_what_was_claimed_beside_an_unwitnessed_settle_is_given_back() -> None:
    witness = Slow()
    witness.go_on.set()

    async def scenario(stage: Stage) -> None:
        _, other = await stage.submit_many(2)
        claimed = await stage.take_one()
        witness.error = ConnectionError("no peer")
        with pytest.raises(ConnectionError):
            await stage.engine.settle([(claimed, Succeed())], stage.ask())
        await settle_down()
        assert await stage.status(other) == Status.QUEUED

    play(scenario, witness=witness)


def test_a_condition_is_concluded_once_and_chooses_a_branch() -> None:
    async def scenario(stage: Stage) -> None:
        condition, then, other = await stage.submit(
            stage.task(Kind.CONDITION),
            stage.task(parents=(Edge(-1, On.THEN),)),
            stage.task(parents=(Edge(-1, On.ELSE),)),
        )
        await stage.engine.conclude(condition, branch=False)
        assert [await stage.status(task) for task in (condition, then, other)] == [
            Status.SUCCEEDED,
            Status.CANCELLED,
            Status.QUEUED,
        ]
        with pytest.raises(WrongStatus):
            await stage.engine.conclude(condition, branch=True)
        with pytest.raises(WrongStatus, match="no condition"):
            await stage.engine.conclude(other, branch=True)

    play(scenario)
