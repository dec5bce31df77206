"""What the memory store keeps of a task, an edge, a queue and a node, and where each of them stands in the indexes."""

from enum import StrEnum
from typing import Any, NamedTuple

from ganger.core.clock import Moment, Wall
from ganger.core.graph import Join
from ganger.core.ids import BatchId, QueueId, TaskId
from ganger.core.lane import Lane
from ganger.core.node import Node
from ganger.core.queue import Queue, Sort
from ganger.core.state import LEASED, Status, is_final
from ganger.core.task import Kind, Task
from ganger.engine.stores.memory.table import Place


class Row(NamedTuple):
    """A task and what nobody but the store needs to know of it.

    `edges` are those not decided yet, `held` those that held; `members` of a group are those not final, `failures` the
    ones that did not succeed, `open` keeps it waiting for more. `claimed` is when its lease began.
    """

    task: Task
    spec: bytes
    lane: Lane
    rank: int
    edges: int = 0
    held: int = 0
    members: int = 0
    failures: int = 0
    open: bool = False
    claimed: Wall | None = None

    def having(self, **fields: Any) -> "Row":
        """The row with other fields of its task."""
        return self._replace(task=self.task._replace(**fields))

    def waiting(self, *, edges: int = 0, held: int = 0, members: int = 0, failures: int = 0) -> "Row":
        """The row with so many more of each (or fewer)."""
        row = self._replace(
            edges=self.edges + edges,
            held=self.held + held,
            members=self.members + members,
            failures=self.failures + failures,
        )
        return row.counting()

    def counting(self) -> "Row":
        """The row with what its task waits for. A join of `any` is free of its other edges when one has held."""
        edges = 0 if self.task.join == Join.ANY and self.held else self.edges
        return self.having(waits=edges + self.members + self.open)

    @property
    def limit(self) -> "tuple[QueueId, str] | None":
        return None if self.task.limit_key is None else (self.task.queue, self.task.limit_key)


class Decided(StrEnum):
    OPEN = "open"
    HELD = "held"
    NEVER = "never"


class Link(NamedTuple):
    """An edge, and what has become of it."""

    child: TaskId
    parent: TaskId
    on: str
    decided: str = Decided.OPEN

    @property
    def key(self) -> tuple[TaskId, TaskId]:
        return self.child, self.parent


class QueueRow(NamedTuple):
    """A queue, and the batch that it fills."""

    queue: Queue
    batch: BatchId | None = None
    filled: int = 0


class NodeRow(NamedTuple):
    """A registration, the token that proves it, the boot in which its moments mean something, the slots it says."""

    node: Node
    token: str
    boot: str
    said: int | None

    def live(self, now: Moment, boot: str) -> bool:
        return self.boot == boot and self.node.live(now)


def rank_of(task: TaskId, sort: str) -> int:
    return -task if sort == Sort.LIFO else task


def is_group(task: Task) -> bool:
    return task.kind == Kind.GROUP


def place_ready(row: Row) -> Place:
    """What a claim may take, in the order of claiming, apart for each lane of each queue."""
    if row.task.status != Status.QUEUED or row.task.parked:
        return None
    return (row.task.queue, row.lane), (row.task.priority, row.rank, row.task.id)


def place_delayed(row: Row) -> Place:
    return (row.task.queue, (row.task.due, row.task.id)) if row.task.status == Status.DELAYED else None


def place_limited(row: Row) -> Place:
    """The queued tasks of each concurrency key, in the order of claiming."""
    if row.limit is None or row.task.status != Status.QUEUED:
        return None
    return row.limit, (row.task.priority, row.rank, row.task.id)


def place_unparked(row: Row) -> Place:
    return None if row.task.parked else place_limited(row)


def place_active_of_key(row: Row) -> Place:
    return (row.limit, row.task.id) if row.limit is not None and row.task.status in LEASED else None


def place_active_of_queue(row: Row) -> Place:
    return (row.task.queue, row.task.id) if row.task.status in LEASED else None


def place_active_of_node(row: Row) -> Place:
    return (row.task.holder, row.task.id) if row.task.status in LEASED else None


def place_active_of_both(row: Row) -> Place:
    return ((row.task.queue, row.task.holder), row.task.id) if row.task.status in LEASED else None


def place_touched(row: Row) -> Place:
    return None if row.task.until is None else (None, (row.task.until, row.task.id))


def place_status(row: Row) -> Place:
    return (row.task.queue, row.task.status), row.task.id


def place_key(row: Row) -> Place:
    return None if row.task.key is None else (row.task.key, row.task.id)


def place_member(row: Row) -> Place:
    return None if row.task.group is None else (row.task.group, row.task.id)


def place_ended(row: Row) -> Place:
    return (None, (row.task.ended, row.task.id)) if is_final(row.task.status) else None


def place_child(link: Link) -> Place:
    return link.child, (link.parent, link.on)


def place_parent(link: Link) -> Place:
    return link.parent, (link.child, link.on)
