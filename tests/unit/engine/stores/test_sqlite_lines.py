"""Which lanes have somebody waiting: never one too few, whatever fails."""

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import CycleFound, StoreFull, UnknownGroup
from ganger.core.graph import Edge
from ganger.core.state import move
from ganger.core.task import NewTask
from ganger.databases.sqlite import Session
from ganger.engine.store import Claim, Exchange
from ganger.engine.stores.sqlite.exchanging import exchange
from tests.unit.engine.stores.owner import Owner, numbers, payload


def test_a_node_without_a_free_slot_makes_nobody_forgotten() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node(slots=1)
    owner.submit(payload(queue), payload(queue))
    first = owner.claim(node, queue)
    assert owner.claim(node, queue) == []
    owner.settle("succeed", *first)

    assert numbers(owner.claim(node, queue)) == [2]


def test_a_queue_at_its_limit_makes_nobody_forgotten() -> None:
    owner = Owner()
    queue, node = owner.queue(max_active=1), owner.node()
    owner.submit(payload(queue), payload(queue))
    first = owner.claim(node, queue, most=5)
    assert owner.claim(node, queue) == []
    owner.settle("succeed", *first)

    assert numbers(owner.claim(node, queue)) == [2]


def test_an_empty_lane_is_not_looked_at_again_until_somebody_waits_in_it() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    owner.submit(payload(queue))
    owner.claim(node, queue, most=2)
    owner.claim(node, queue)
    assert owner.shelf.lined[queue] == set()
    owner.submit(payload(queue))

    assert numbers(owner.claim(node, queue)) == [2]


def test_a_claim_that_is_taken_back_makes_nobody_forgotten() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    owner.submit(payload(queue))

    def claim_twice_and_fail(session: Session, request: Exchange) -> None:
        exchange(session, request)
        exchange(session, request)
        raise StoreFull("no room for the answer")

    with pytest.raises(StoreFull):
        owner.run(claim_twice_and_fail, Exchange(claim=Claim(node, (queue,))))

    assert numbers(owner.claim(node, queue)) == [1]


def test_a_lane_that_was_made_by_a_unit_that_failed_is_not_there() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    owner.submit(payload(queue))
    with pytest.raises(UnknownGroup):
        owner.submit(NewTask(queue, "shell", group=77))

    assert [lane.kind for lane in owner.shelf.lanes.values()] == ["payload"]
    assert numbers(owner.claim(node, queue)) == [1]
    owner.submit(NewTask(queue, "command"))
    assert [one.kind for one in owner.claim(node, queue)] == ["command"]


def test_a_lane_that_avoids_somebody_is_forgotten_when_its_time_is_over_and_nobody_waits_in_it() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node("n")
    owner.node("m")
    owner.submit(payload(queue))
    (one,) = owner.claim(node, queue)
    owner.exchange(move(one.id, "retry", one.fence)._replace(avoid=30_000))
    assert [number < 0 for number in owner.shelf.lanes] == [False, True]

    def prune() -> None:
        owner.tend(prune_before=Wall(0))

    prune()
    assert len(owner.shelf.lanes) == 2
    owner.clock.advance(31_000)
    prune()
    assert len(owner.shelf.lanes) == 2
    assert numbers(owner.claim(owner.node("n"), queue)) == [1]
    prune()
    assert len(owner.shelf.lanes) == len(owner.read("SELECT * FROM lane")) == 1


def test_a_member_that_waits_for_its_own_group_is_refused() -> None:
    owner = Owner()
    queue = owner.queue()
    (group,) = owner.submit(NewTask(queue, "group", open_group=True))
    (child,) = owner.submit(payload(queue, parents=(Edge(group),)))
    with pytest.raises(CycleFound):
        owner.submit(payload(queue, group=group, parents=(Edge(child),)))

    assert owner.submit(payload(queue, group=group))


@pytest.mark.parametrize("group", [-1, 1, 2, 77])
def test_a_group_that_is_none_is_refused(group: int) -> None:
    owner = Owner()
    with pytest.raises(UnknownGroup):
        owner.submit(payload(owner.queue()), payload(owner.queue(), group=group))

    assert owner.read("SELECT * FROM task") == []


def test_one_key_twice_in_a_submission_is_one_task() -> None:
    owner = Owner()
    queue = owner.queue()
    keyed = payload(queue, key="k", on_conflict="return")

    assert owner.submit(keyed, keyed, payload(queue, parents=(Edge(-2),))) == [1, 1, 3]
    assert owner.read("SELECT id, kids FROM task") == [(1, 1), (3, 0)]
