"""A claim whose answer was lost is answered again from its receipt."""

import pytest

from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.state import move
from ganger.engine.store import CLAIMED_SPEC, Claim, Exchange, Exchanged
from ganger.engine.stores.sqlite.exchanging import exchange, exchange_receipt, replay_exchange
from tests.unit.engine.stores.owner import Owner, numbers, payload


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def queue(owner: Owner) -> QueueId:
    return owner.queue()


@pytest.fixture
def node(owner: Owner) -> NodeId:
    return owner.node()


def again(owner: Owner, reply: Exchanged) -> Exchanged:
    return owner.run(replay_exchange, exchange_receipt(reply))


@pytest.mark.parametrize("start", [False, True])
def test_the_reply_is_the_same_again(owner: Owner, queue: QueueId, node: NodeId, start: bool) -> None:
    sizes = (0, 5, 2_000, CLAIMED_SPEC + 1)
    owner.submit(*(payload(queue, b"x" * size, priority=size, timeout=9) for size in sizes))
    owner.submit(payload(queue, renewal="touch", ttr=500), payload(queue, retry="[2]"))
    reply = owner.run(exchange, Exchange(claim=Claim(node, (queue,), 10, start=start)))

    assert len(reply.claimed) == 6
    assert again(owner, reply) == reply


def test_refusals_and_the_next_time_are_the_same_again(owner: Owner, queue: QueueId, node: NodeId) -> None:
    owner.submit(payload(queue), payload(queue, delay=5_000))
    stale = move(TaskId(1), "succeed", Fence(9))
    gone = move(TaskId(77), "cancel")
    reply = owner.exchange(stale, gone, claim=Claim(node, (queue,), 10))

    assert (len(reply.refused), numbers(reply.claimed), reply.next_due) == (2, [1], owner.clock.wall() + 5_000)
    assert again(owner, reply) == reply


def test_a_task_whose_lease_has_ended_is_left_out(owner: Owner, queue: QueueId, node: NodeId) -> None:
    owner.submit(*[payload(queue)] * 4)
    reply = owner.exchange(claim=Claim(node, (queue,), 4))
    settled, released, lost, kept = reply.claimed
    owner.settle("succeed", settled)
    owner.settle("release", released)
    owner.move("lose", lost.id, lost.fence)

    assert numbers(again(owner, reply).claimed) == [kept.id]


def test_a_task_that_another_holder_has_now_is_left_out(owner: Owner, queue: QueueId, node: NodeId) -> None:
    owner.submit(payload(queue))
    reply = owner.exchange(claim=Claim(node, (queue,)))
    owner.settle("release", *reply.claimed)
    owner.claim(owner.node("other"), queue)

    assert again(owner, reply).claimed == []


def test_a_receipt_is_small_whatever_was_claimed(owner: Owner, queue: QueueId, node: NodeId) -> None:
    owner.submit(*[payload(queue, b"x" * 60_000)] * 100)
    reply = owner.exchange(claim=Claim(node, (queue,), 100))

    assert len(exchange_receipt(reply)) < 1_000


def test_a_replay_changes_nothing(owner: Owner, queue: QueueId, node: NodeId) -> None:
    owner.submit(payload(queue))
    reply = owner.exchange(claim=Claim(node, (queue,)))
    before = owner.connection.total_changes()
    again(owner, reply)

    assert owner.connection.total_changes() == before
