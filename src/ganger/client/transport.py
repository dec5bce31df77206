"""THE CONTRACT between the SDK and whatever carries its wishes to an engine: in the same process, or far away.

Every operation is async and belongs to the event loop in which the transport was opened. Errors are those of
`core.errors`. A cancelled call may have been carried out or not.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from ganger.core.ids import TaskId
from ganger.core.schedule import Schedule
from ganger.core.task import NewTask, Task


class Draft(NamedTuple):
    """A task to be, in a queue that is given by its name (the queue of `task` means nothing).

    `refers`: its spec has references {"$task": -n} to the n-th task of the same submission. `names`: what the tasks are
    called in the expression of a condition, with the id of each, or -n for the n-th.
    """

    queue: str
    task: NewTask
    refers: bool = False
    names: tuple[tuple[str, int], ...] = ()


class Plan(NamedTuple):
    """A schedule, and the task that each tick submits."""

    schedule: Schedule
    draft: Draft


class Synced(NamedTuple):
    """The names of schedules that were added, were changed, were the same, are declared no more but still at work, and
    were removed.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class Piece(NamedTuple):
    """Bytes of a value from an offset on; `size` is that of the whole so far."""

    body: bytes
    size: int


class Reason(NamedTuple):
    """One thing that keeps a task where it is: a code that never changes, and a sentence."""

    code: str
    sentence: str


class Why(NamedTuple):
    """The word for where a task is, and all that keeps it there, the most telling first."""

    status: str
    reasons: tuple[Reason, ...]


class TaskEvent(NamedTuple):
    """One fact about some tasks of one queue, or about a queue or a node: then there are no `tasks`.

    Keep the `position` of the last one that was dealt with: from there on the next are read.
    """

    position: int
    at: datetime
    fact: str
    queue: str | None
    tasks: tuple[TaskId, ...]


class Transport(Protocol):
    """What the SDK needs of an engine."""

    async def submit(self, drafts: Sequence[Draft]) -> list[TaskId]:
        """Store the tasks, and make their queues if they are not there; the ids in their order.

        Atomic: none of them runs unless all are stored, with their references turned into ids. Durable when it
        returns. To send it again safely give keys with on_conflict `return`: then the task that has the key is given.
        Raises BadInput and its kin with the task's index, DuplicateKey, StoreError.
        """
        ...

    def post_now(self, drafts: Sequence[Draft]) -> Callable[[], list[TaskId]] | None:
        """As `submit`, on the calling thread, which may be any and waits; None, and nothing done, if it cannot.

        Durable when it returns. The ids may be known a moment later: what is returned waits for them.
        """
        ...

    async def wait(self, ids: Sequence[TaskId], timeout: float | None, *, through_hold: bool = False) -> bool:
        """Wait until all of these have ended or are gone: True; or until the time (seconds) is up: False.

        Raises TaskHeld as soon as all that have not ended are held, unless those are waited for too.
        """
        ...

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        """The tasks with these ids, None where there is none."""
        ...

    async def read_data(self, task: TaskId, key: str, start: int) -> Piece:
        """A part of a named value; empty at its end, and of size 0 if there is none."""
        ...

    async def read_output(self, task: TaskId, stream: str, start: int) -> Piece:
        """A part of an output stream of the newest attempt that has some."""
        ...

    def follow_output(
        self, task: TaskId, streams: Sequence[str], *, so_far: bool = False
    ) -> AsyncGenerator[tuple[str, bytes], None]:
        """What the newest attempt and those after it write to these streams, as it comes, until the task has ended.

        With `so_far` it ends sooner: when what has been written by now is read.

        Each piece with the name of its stream; in each stream every byte once and in its order. Whoever reads slowly
        slows nobody. Close it when leaving early. Raises TaskNotFound.
        """
        ...

    async def cancel(self, ids: Sequence[TaskId]) -> list[TaskId]:
        """End those that wait, groups with their members; returns those that were ended."""
        ...

    async def kill(self, ids: Sequence[TaskId]) -> list[TaskId]:
        """Have those that run killed and those that wait cancelled; returns those that had not ended."""
        ...

    async def set_queue(self, name: str, changes: Mapping[str, Any]) -> None:
        """Make the queue if it is not there, and change these fields of its policy; `becomes` is a queue's name.

        Idempotent. Raises BadInput and its kin, Conflict (two queues bear the name), QueueNotFound (`becomes`).
        """
        ...

    def follow_events(self, after: int | None) -> AsyncGenerator[TaskEvent, None]:
        """The events behind this position (None: from now on) in their order, for ever. Close it when leaving early."""
        ...

    async def sync_schedules(self, plans: Sequence[Plan], owner: str, *, remove: bool) -> Synced:
        """Keep these schedules, changed where they are others; the owner's that are not among them are told.

        With `remove` those are removed. Idempotent, not atomic; send it again safely. Raises BadInput and DuplicateKey
        (the name is somebody else's) before anything is written, and StoreError.
        """
        ...

    async def explain(self, task: TaskId) -> Why:
        """Why the task is where it is, or TaskNotFound."""
        ...
