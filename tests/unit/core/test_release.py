"""What becomes of those who wait, decided once for all stores."""

from typing import NamedTuple

import pytest

from ganger.core.graph import Closed
from ganger.core.release import Turn, Turned, conclude, find_due, is_unhappy, turn
from ganger.core.state import Status
from ganger.core.task import Kind


class Child(NamedTuple):
    status: int = Status.BLOCKED
    waits: int = 1
    any_join: bool = False


def closed(held: int = 0, never: int = 0) -> Closed:
    edges = Closed()
    edges.edges, edges.held, edges.why = held + never, held, "it failed" if never else None
    return edges


@pytest.mark.parametrize(
    ("child", "kind", "edges", "expected"),
    [
        (Child(), Kind.COMMAND, closed(1), Turned(Turn.UNBLOCK, 0)),
        (Child(waits=2), Kind.COMMAND, closed(1), Turned(Turn.WAKE, 1)),
        (Child(waits=2), Kind.COMMAND, closed(0, 1), Turned(Turn.LOSE, 1)),
        (Child(waits=3, any_join=True), Kind.COMMAND, closed(1), Turned(Turn.UNBLOCK, 0)),
        (Child(waits=2, any_join=True), Kind.COMMAND, closed(0, 1), Turned(Turn.WAKE, 1)),
        (Child(waits=1, any_join=True), Kind.COMMAND, closed(0, 1), Turned(Turn.LOSE, 0)),
        (Child(), Kind.CONDITION, closed(1), Turned(Turn.WAKE, 0)),
        (Child(waits=4), Kind.GROUP, closed(1), Turned(Turn.WAKE, 3)),
        (Child(), Kind.GROUP, closed(1), Turned(Turn.CONCLUDE, 0)),
        (Child(Status.HELD), Kind.COMMAND, closed(1), Turned(Turn.WAKE, 0)),
        (Child(Status.HELD), Kind.COMMAND, closed(0, 1), Turned(Turn.LOSE, 0)),
        (Child(Status.CANCELLED, waits=0), Kind.COMMAND, closed(1), Turned(Turn.COUNT, 0)),
        (Child(Status.QUEUED, waits=2, any_join=True), Kind.COMMAND, closed(1), Turned(Turn.COUNT, 1)),
    ],
)
def test_a_child_is_turned_by_its_edges(child: Child, kind: str, edges: Closed, expected: Turned) -> None:
    assert turn(child, kind, edges) == expected


def test_a_delay_counts_from_the_release_and_a_time_is_a_time() -> None:
    assert find_due(None, 0, 100) == ("unblock", None)
    assert find_due(None, 50, 100) == ("unblock_later", 150)
    assert find_due(90, 50, 100) == ("unblock", 90)
    assert find_due(110, 0, 100) == ("unblock_later", 110)


def test_a_group_fails_with_members_that_did_not_succeed_but_not_with_skipped_ones() -> None:
    assert conclude(0) == ("conclude", None)
    assert conclude(2) == ("conclude_failed", "2 of its members did not succeed")
    assert is_unhappy(Status.FAILED, "it broke")
    assert not is_unhappy(Status.SUCCEEDED, None)
    assert not is_unhappy(Status.CANCELLED, "skipped")
