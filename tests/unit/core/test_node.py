"""A registration: who is here, and what it takes."""

import pytest

from ganger.core.clock import Moment, Wall
from ganger.core.ids import NodeId
from ganger.core.node import Node, NodeState


def node(state: str = NodeState.ACTIVE, **more: object) -> Node:
    made = Node(NodeId(1), 1, "n", state, Moment(100), 30, None, None, None, (), Wall(0), Wall(0))
    return made._replace(**more)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", NodeState)
def test_a_node_is_here_until_it_leaves_or_is_lost(state: NodeState) -> None:
    assert node(state).here is (state in {NodeState.ACTIVE, NodeState.DRAINING})


@pytest.mark.parametrize(
    ("state", "now", "live"),
    [
        (NodeState.ACTIVE, 99, True),
        (NodeState.ACTIVE, 100, False),
        (NodeState.DRAINING, 99, True),
        (NodeState.LEFT, 0, False),
        (NodeState.LOST, 0, False),
    ],
)
def test_a_node_lives_while_it_is_here_and_its_lease_lasts(state: NodeState, now: int, live: bool) -> None:
    assert node(state).live(Moment(now)) is live


def test_a_node_that_names_no_queues_takes_all_of_them() -> None:
    assert node().takes_queue("mail")
    assert node(queues=("mail",)).takes_queue("mail")
    assert not node(queues=("mail",)).takes_queue("post")
    assert not node(queues=()).takes_queue("mail")


def test_a_node_that_names_no_kinds_runs_all_of_them() -> None:
    assert node().takes_kind("shell")
    assert node(kinds=("shell",)).takes_kind("shell")
    assert not node(kinds=("shell",)).takes_kind("command")
    assert not node(kinds=()).takes_kind("shell")
