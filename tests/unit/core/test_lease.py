"""How long a lease is good, and how long its holder may believe in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.clock import Moment
from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.lease import MARGIN, Lease, trusted_until, valid
from ganger.core.task import Claimed

moments = st.integers(0, 1 << 50).map(Moment)


@pytest.mark.parametrize(
    ("until", "node_until", "now", "good"),
    [
        (None, 100, 99, True),
        (None, 100, 100, False),
        (50, 100, 49, True),
        (50, 100, 50, False),
        (200, 100, 150, False),
        (200, 100, 99, True),
    ],
)
def test_a_lease_is_good_before_its_own_end_and_that_of_its_node(
    until: int | None, node_until: int, now: int, good: bool
) -> None:
    own = None if until is None else Moment(until)
    assert valid(own, Moment(node_until), Moment(now)) is good


@given(moments, moments, moments)
def test_a_lease_that_has_ended_never_is_good_again(until: Moment, node_until: Moment, now: Moment) -> None:
    if not valid(until, node_until, now):
        assert not valid(until, node_until, Moment(now + 1))


@given(moments, st.integers(1, 10**9), st.integers(0, 10**6))
def test_a_holder_stops_believing_before_the_lease_ends(asked: Moment, length: int, on_the_way: int) -> None:
    """The store reads its clock after the holder asked: what it grants ends later than what the holder believes."""
    granted = Moment(asked + on_the_way + length)

    assert trusted_until(asked, length) < granted


@given(moments, st.integers(10, 10**9))
def test_a_holder_may_use_nearly_all_of_its_lease(asked: Moment, length: int) -> None:
    margin = length - (trusted_until(asked, length) - asked)

    assert margin >= 1
    assert abs(margin - length * MARGIN) <= 1


def test_a_claimed_task_names_its_lease() -> None:
    granted = (TaskId(1), QueueId(2), "shell", b"", Fence(3), NodeId(4), Moment(5))
    claimed = Claimed(*granted, priority=0, attempts=0, crashes=0, retry="", timeout=None, status=-1)

    assert claimed.lease == Lease(TaskId(1), Fence(3), NodeId(4), Moment(5))
