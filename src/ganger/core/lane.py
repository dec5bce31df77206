"""Lanes: the tasks of a queue that the same holders may take stand in one line, whoever else's stand before them.

A claim must not walk over a million tasks that this holder may not have: of a kind that it does not run, that ask for
a label that it lacks, or that just failed on it and are to go to another. So a task waits in the lane of those who may
take it; a claim merges the heads of the lanes that are open to its node. A queue has few lanes.

A task that failed on a holder avoids it until a moment: its lane carries that moment, rounded down so that lanes stay
few and no task avoids anybody longer than it was told to, and is open to everybody from then on. While no other node
takes the queue there is nobody to prefer, and the lane is open too.
"""

from typing import NamedTuple

from ganger.core.node import Node

AVOID_GRAIN = 5_000
NOBODY = 0


class Lane(NamedTuple):
    kind: str
    requires: tuple[str, ...] = ()
    avoid: int = NOBODY
    avoid_until: int = 0


def avoiding(lane: Lane, identity: int, until: int) -> Lane:
    """The lane of the same tasks that keeps clear of one node until then (wall clock, ms)."""
    return lane._replace(avoid=identity, avoid_until=until // AVOID_GRAIN * AVOID_GRAIN)


def avoids(lane: Lane, node: Node, wall: int) -> bool:
    """Does the lane keep clear of this node now, as long as there is another?"""
    return lane.avoid == node.identity and wall < lane.avoid_until


def open_to(lane: Lane, node: Node, wall: int, alone: bool) -> bool:
    """May this node take from the lane now? `alone`: no other node that is here takes the queue."""
    avoided = avoids(lane, node, wall) and not alone
    return not avoided and node.takes_kind(lane.kind) and set(lane.requires) <= set(node.labels)
