"""Who may take from which line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.clock import Moment, Wall
from ganger.core.ids import NodeId
from ganger.core.lane import AVOID_GRAIN, Lane, avoiding, open_to
from ganger.core.node import Node, NodeState

PLAIN = Lane("shell")


def node(identity: int = 1, kinds: tuple[str, ...] | None = None, labels: tuple[str, ...] = ()) -> Node:
    return Node(NodeId(9), identity, "n", NodeState.ACTIVE, Moment(10), 10, None, None, kinds, labels, Wall(0), Wall(0))


def test_a_plain_lane_is_open_to_everybody() -> None:
    assert open_to(PLAIN, node(), 0, alone=False)


@pytest.mark.parametrize(("kinds", "open_"), [(None, True), (("shell",), True), (("command",), False), ((), False)])
def test_a_lane_is_open_to_nodes_that_run_its_kind(kinds: tuple[str, ...] | None, open_: bool) -> None:
    assert open_to(PLAIN, node(kinds=kinds), 0, alone=True) is open_


@pytest.mark.parametrize(
    ("requires", "labels", "open_"),
    [((), ("gpu",), True), (("gpu",), ("gpu", "eu"), True), (("gpu", "eu"), ("gpu",), False), (("gpu",), (), False)],
)
def test_a_lane_is_open_to_nodes_that_have_its_labels(
    requires: tuple[str, ...], labels: tuple[str, ...], open_: bool
) -> None:
    assert open_to(Lane("shell", requires), node(labels=labels), 0, alone=True) is open_


def test_a_lane_that_avoids_a_node_is_closed_to_it_until_its_time() -> None:
    lane = avoiding(PLAIN, 1, 30_000)

    assert not open_to(lane, node(1), 29_999, alone=False)
    assert open_to(lane, node(1), 30_000, alone=False)


def test_a_lane_that_avoids_a_node_is_open_to_others() -> None:
    assert open_to(avoiding(PLAIN, 1, 30_000), node(2), 0, alone=False)


def test_a_lane_avoids_nobody_where_there_is_nobody_else() -> None:
    assert open_to(avoiding(PLAIN, 1, 30_000), node(1), 0, alone=True)


def test_a_lane_that_avoids_a_node_asks_for_the_same_kind_and_labels() -> None:
    lane = avoiding(Lane("shell", ("gpu",)), 1, 30_000)

    assert (lane.kind, lane.requires) == ("shell", ("gpu",))
    assert not open_to(lane, node(1), 40_000, alone=False)


@given(st.integers(0, 1 << 50))
def test_no_task_avoids_a_node_longer_than_it_was_told_to(until: int) -> None:
    lane = avoiding(PLAIN, 1, until)

    assert until - AVOID_GRAIN < lane.avoid_until <= until
    assert lane.avoid_until % AVOID_GRAIN == 0
