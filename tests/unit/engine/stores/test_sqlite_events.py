"""Events: one row per batch, large batches in several, positions that never come twice."""

from typing import Any

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import UnknownGroup
from ganger.core.event import Fact
from ganger.core.ids import Position
from ganger.engine.stores.sqlite import reading
from ganger.engine.stores.sqlite.step import EVENT_ENTRIES
from tests.unit.engine.stores.owner import Owner, payload


def told(owner: Owner, fact: Fact) -> list[Any]:
    return [event for event in reading.events(owner.connection, Position(0), 1_000) if event.fact is fact]


def test_a_batch_is_one_row() -> None:
    owner = Owner()
    queue, node = owner.queue(), owner.node()
    ids = owner.submit(*[payload(queue)] * 50)
    claimed = owner.claim(node, queue, most=50)
    owner.settle("succeed", *claimed)

    for fact in (Fact.SUBMITTED, Fact.CLAIMED, Fact.SETTLED):
        (event,) = told(owner, fact)
        assert [entry.task for entry in event.entries] == ids


def test_a_large_batch_is_told_in_several_rows() -> None:
    owner = Owner()
    ids = owner.submit(*[payload(owner.queue())] * (2 * EVENT_ENTRIES + 1))
    events = told(owner, Fact.SUBMITTED)

    assert EVENT_ENTRIES <= 10_000
    assert [len(event.entries) for event in events] == [EVENT_ENTRIES, EVENT_ENTRIES, 1]
    assert [entry.task for event in events for entry in event.entries] == ids
    assert reading.counts(owner.connection)[1] == {1: {"submitted": len(ids)}}


def test_tasks_of_two_queues_are_two_rows() -> None:
    owner = Owner()
    one, other = owner.queue("one"), owner.queue("other")
    owner.submit(payload(one), payload(other), payload(one))

    assert [(event.queue, len(event.entries)) for event in told(owner, Fact.SUBMITTED)] == [(one, 2), (other, 1)]


def test_positions_go_on_when_every_event_has_been_pruned_and_the_owner_is_a_new_one() -> None:
    owner = Owner()
    queue = owner.queue()
    owner.submit(payload(queue))
    ((last,),) = owner.read("SELECT max(position) FROM event")
    owner.clock.advance(1_000)
    while owner.tend(prune_before=Wall(owner.clock.wall())).more:
        pass
    assert owner.read("SELECT * FROM event") == []

    heir = Owner(owner.connection, owner.clock)
    heir.submit(payload(queue))
    assert [event.position > last for event in reading.events(heir.connection, Position(last), 10)] == [True]


def test_a_unit_that_fails_tells_nothing() -> None:
    owner = Owner()
    queue = owner.queue()
    before = owner.read("SELECT position, fact FROM event")
    with pytest.raises(UnknownGroup):
        owner.submit(payload(queue, group=77))

    assert owner.read("SELECT position, fact FROM event") == before
    assert reading.counts(owner.connection)[1] == {queue: {}}
