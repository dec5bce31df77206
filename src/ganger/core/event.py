"""The facts: what happened, one row per batch, in an order that a reader can resume.

An event names the tasks that a fact is about, with what a follower needs to keep its picture true: their new statuses,
the fences, the holder, the reason. A `Fact.SUBMITTED` event and the tasks that it names say together all that another
machine needs to make the same tasks.
"""

from enum import StrEnum
from typing import NamedTuple

from ganger.core.clock import Wall
from ganger.core.ids import Position, QueueId, TaskId


class Fact(StrEnum):
    """The kinds of events. Each value is documented in the reference."""

    SUBMITTED = "submitted"
    READIED = "readied"
    CLAIMED = "claimed"
    STARTED = "started"
    PROGRESSED = "progressed"
    SETTLED = "settled"
    RETRIED = "retried"
    RELEASED = "released"
    HELD = "held"
    KICKED = "kicked"
    CANCELLED = "cancelled"
    LOST = "lost"
    KILL_REQUESTED = "kill_requested"
    EDITED = "edited"
    REMOVED = "removed"
    QUEUE_CHANGED = "queue_changed"
    QUEUE_REMOVED = "queue_removed"
    NODE_JOINED = "node_joined"
    NODE_LEFT = "node_left"
    NODE_LOST = "node_lost"


class Entry(NamedTuple):
    """One task of an event: where it stands now."""

    task: TaskId
    status: int
    fence: int = 0
    reason: str | None = None


class Event(NamedTuple):
    """One fact about some tasks of one queue (or about a queue or a node: then `entries` is empty)."""

    position: Position
    at: Wall
    fact: Fact
    queue: QueueId
    holder: int
    entries: tuple[Entry, ...]
    subject: str | None = None
