"""A task: one piece of work, as it is submitted, as a holder gets it, and as anybody sees it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from ganger.core.clock import Moment, Wall
from ganger.core.graph import Edge, Join
from ganger.core.ids import BatchId, Fence, NodeId, Position, QueueId, TaskId
from ganger.core.lease import Lease, Renewal

TOP_PRIORITY = 0
DEFAULT_PRIORITY = 1024
LAST_PRIORITY = (1 << 32) - 1


class Kind(StrEnum):
    """What runs a task. A plugin's kind is `plugin:<name>`."""

    COMMAND = "command"
    SHELL = "shell"
    FUNCTION = "function"
    PAYLOAD = "payload"
    CONDITION = "condition"
    GROUP = "group"


PLUGIN = "plugin:"
SOURCE = "chain.source"
"""The data of a task that was the result of another: the id of that one."""
SUCCESSOR = "chain.successor"
"""The data of a task whose result became another: the id of that one."""
EXIT = "exit"
"""The data in which an attempt of a plugin leaves what its process exited with."""
THEIRS = "disbatch"
"""The data that has the attributes which other programs gave to a task, as a JSON object; where there are such."""
SLOTLESS = frozenset({Kind.CONDITION, Kind.GROUP})
"""Kinds that never take a slot: they stay blocked until they are concluded."""

GATE = "the gate of a graph"
"""What the group is called that holds back a graph until the results in it have their places."""
SCHEDULES = "schedules:"
"""With this begins the key of the group that a schedule is kept as."""


class OnConflict(StrEnum):
    """What a submit does when its key is taken: refuse, or give back the task that has it."""

    REFUSE = "refuse"
    RETURN = "return"


class NewTask(NamedTuple):
    """A task to be. Relative delays are milliseconds; a negative parent or group -n is the submission's n-th task.

    `limit_key` is the concurrency key; `requires` are labels that the node must have. `retry` is the text of a policy,
    None for the queue's. `ttr` is the length of a touched lease. `open_group` keeps a group waiting for more members.
    """

    queue: QueueId
    kind: str
    spec: bytes = b""
    priority: int = DEFAULT_PRIORITY
    description: str | None = None
    parents: tuple[Edge, ...] = ()
    delay: int = 0
    join: str = Join.ALL
    group: int = 0
    key: str | None = None
    on_conflict: str = OnConflict.REFUSE
    retry: str | None = None
    timeout: int | None = None
    renewal: str = Renewal.LIVENESS
    ttr: int | None = None
    limit_key: str | None = None
    requires: tuple[str, ...] = ()
    open_group: bool = False
    due: Wall | None = None
    retry_of: TaskId | None = None


class Claimed(NamedTuple):
    """A task in the hands of a holder: what it needs to run it, and the fence that it names from now on.

    `attempts` and `crashes` are those before this one; `retry` is the policy that counts, the queue's where the task
    has none. A spec of None is too large to travel along: read it as the task's data `spec`.
    """

    id: TaskId
    queue: QueueId
    kind: str
    spec: bytes | None
    fence: Fence
    holder: NodeId
    until: Moment | None
    priority: int
    attempts: int
    crashes: int
    retry: str
    timeout: int | None
    status: int

    @property
    def lease(self) -> Lease:
        return Lease(self.id, self.fence, self.holder, self.until)


class Eager(Protocol):
    """Whoever waits for tasks and would begin them the moment they are its own, before it is told of them."""

    def prepare(self, claimed: Sequence[Claimed]) -> None:
        """They are claimed, but that is not safe yet: get ready, with no effect that anybody could see.

        This, `begin` and `forget` are called on one thread, which may be any, and must not take long.
        """
        ...

    def begin(self, claimed: Sequence[Claimed]) -> None:
        """They are safe: begin what was prepared. They are the answer that is waited for, begun or not."""
        ...

    def forget(self) -> None:
        """What was prepared, if anything was, is not claimed after all."""
        ...

    def keep(self, claimed: Sequence[Claimed]) -> bool:
        """On the event loop: nobody waits for this answer any more. True if they are kept, because they were begun."""
        ...


class Task(NamedTuple):
    """A task as anybody sees it."""

    id: TaskId
    position: Position
    queue: QueueId
    kind: str
    status: int
    priority: int
    fence: Fence
    holder: NodeId | None
    until: Moment | None
    key: str | None
    description: str | None
    group: TaskId | None
    batch: BatchId | None
    join: str
    waits: int
    kids: int
    due: Wall | None
    delay: int
    retry: str | None
    timeout: int | None
    renewal: str
    ttr: int | None
    limit_key: str | None
    parked: bool
    avoid: int | None
    requires: tuple[str, ...]
    kill: bool
    attempts: int
    crashes: int
    reserves: int
    timeouts: int
    releases: int
    buries: int
    kicks: int
    percent: float | None
    info: str | None
    reason: str | None
    branch: bool
    retry_of: TaskId | None
    created: Wall
    modified: Wall
    started: Wall | None
    ended: Wall | None
    spec_size: int


def is_inner(task: Task) -> bool:
    """Is it a group that nobody submitted: the gate of a graph, or what a schedule is kept as?"""
    return task.kind == Kind.GROUP and (task.description == GATE or (task.key or "").startswith(SCHEDULES))


class Attempt(NamedTuple):
    """One execution under one lease, as history keeps it: one row, written when the lease ended."""

    task: TaskId
    fence: Fence
    holder: str
    claimed: Wall
    started: Wall | None
    ended: Wall
    outcome: str
    code: int
    reason: str | None


class Family(NamedTuple):
    """The edges around a task."""

    parents: Sequence[tuple[TaskId, str]]
    children: Sequence[tuple[TaskId, str]]
