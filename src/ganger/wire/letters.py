"""A task as a line of JSON that is kept in a database until somebody stores it: in an outbox, or in an inbox."""

import msgspec

from ganger.core.errors import BadInput
from ganger.core.graph import Edge
from ganger.core.ids import QueueId
from ganger.core.task import NewTask, OnConflict
from ganger.wire.unreadable import UNREADABLE


class Letter(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is said of a task. Its key is written beside it."""

    queue: str
    kind: str
    spec: msgspec.Raw
    priority: int
    delay: int = 0
    description: str | None = None
    retry: str | None = None
    timeout: int | None = None
    limit_key: str | None = None
    requires: tuple[str, ...] = ()
    parents: tuple[int, ...] = ()


def write_letter(queue: str, task: NewTask) -> str:
    """The task, to be put into the queue of that name (the queue of `task` means nothing)."""
    letter = Letter(
        queue, task.kind, msgspec.Raw(task.spec), task.priority, task.delay, task.description, task.retry,
        task.timeout, task.limit_key, task.requires, tuple(edge.parent for edge in task.parents),
    )  # fmt: skip
    return msgspec.json.encode(letter).decode()


def read_letter(key: str, body: str, where: str) -> tuple[str, NewTask]:
    """The name of the queue, and the task under that key; to read it twice makes one task. BadInput: it is none."""
    try:
        letter = msgspec.json.decode(body, type=Letter)
    except UNREADABLE as error:
        raise BadInput(f"the row {key!r:.80} of the {where} is no task: {error}") from None
    task = NewTask(
        QueueId(0), letter.kind, bytes(letter.spec), letter.priority, letter.description,
        tuple(map(Edge, letter.parents)), letter.delay, key=key, on_conflict=OnConflict.RETURN, retry=letter.retry,
        timeout=letter.timeout, limit_key=letter.limit_key, requires=letter.requires,
    )  # fmt: skip
    return letter.queue, task
