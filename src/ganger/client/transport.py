"""THE CONTRACT between the SDK and whatever carries its wishes to an engine: in the same process, or far away.

Every operation is async and belongs to the event loop in which the transport was opened. Errors are those of
`core.errors`. A cancelled call may have been carried out or not.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ganger.core.ids import TaskId
from ganger.core.task import NewTask, Task


class Draft(NamedTuple):
    """A task to be, in a queue that is given by its name (the queue of `task` means nothing).

    `refers`: its spec has references {"$task": -n} to the n-th task of the same submission.
    """

    queue: str
    task: NewTask
    refers: bool = False


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


class Transport(Protocol):
    """What the SDK needs of an engine."""

    async def submit(self, drafts: Sequence[Draft]) -> list[TaskId]:
        """Store the tasks, and make their queues if they are not there; the ids in their order.

        Atomic: none of them runs unless all are stored, with their references turned into ids. Durable when it
        returns. To send it again safely give keys with on_conflict `return`: then the task that has the key is given.
        Raises BadInput and its kin with the task's index, DuplicateKey, StoreError.
        """
        ...

    async def wait(self, ids: Sequence[TaskId], timeout: float | None) -> bool:
        """Wait until all of these have ended or are gone: True; or until the time (seconds) is up: False."""
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

    async def cancel(self, ids: Sequence[TaskId]) -> list[TaskId]:
        """End those that wait, groups with their members; returns those that were ended."""
        ...

    async def kill(self, ids: Sequence[TaskId]) -> list[TaskId]:
        """Have those that run killed and those that wait cancelled; returns those that had not ended."""
        ...

    async def explain(self, task: TaskId) -> Why:
        """Why the task is where it is, or TaskNotFound."""
        ...
