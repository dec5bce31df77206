"""A node: whoever takes tasks, one registration at a time."""

from enum import StrEnum
from typing import NamedTuple

from ganger.core.clock import Moment, Wall
from ganger.core.ids import NodeId

DEFAULT_LEASE = 30_000
PATIENT_LEASE = 120_000
"""Where the store may be away: of this a node has more than a minute left whenever that happens."""

SHORTEST_LEASE = 100


class NodeState(StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"
    LEFT = "left"
    LOST = "lost"


class Registration(NamedTuple):
    """What a node says of itself. None for queues or kinds means all of them.

    `token` is the node's own secret: the same name with the same token is the same node asking again; with another one
    it is a second node, which is refused while the first lives. `slots` limits it over all queues.
    """

    name: str
    token: str
    slots: int | None = None
    lease: int = DEFAULT_LEASE
    queues: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()


class Vitals(NamedTuple):
    """How a node is, told with its beats: slots and those in use, tasks in its hands, and its machine.

    `load` is the mean number of processes that wanted to run in the last minute, `memory` the bytes in use of `size`.
    `trouble` says why it takes no work; empty if it does. `hands` are the tasks that it has: whatever else is leased to
    it goes back. None of one that does not say.
    """

    slots: int = 0
    used: int = 0
    held: int = 0
    load: float = 0.0
    memory: int = 0
    size: int = 0
    trouble: str = ""
    hands: tuple[int, ...] | None = None


class Node(NamedTuple):
    """A registration as the store knows it. Its `until` is the end of every lease that lives by the node's liveness."""

    id: NodeId
    identity: int
    name: str
    state: str
    until: Moment
    lease: int
    slots: int | None
    queues: tuple[str, ...] | None
    kinds: tuple[str, ...] | None
    labels: tuple[str, ...]
    since: Wall
    seen: Wall
    vitals: Vitals | None = None

    @property
    def here(self) -> bool:
        return self.state in (NodeState.ACTIVE, NodeState.DRAINING)

    def live(self, now: Moment) -> bool:
        return self.here and now < self.until

    def takes_queue(self, name: str) -> bool:
        return self.queues is None or name in self.queues

    def takes_kind(self, kind: str) -> bool:
        return self.kinds is None or kind in self.kinds
