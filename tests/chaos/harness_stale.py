"""Every kind of write that a holder can make under a lease, as requests that can be sent anywhere."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ganger.core.errors import GangerError, StaleLease
from ganger.core.graph import On
from ganger.core.ids import Fence, QueueId, TaskId
from ganger.core.state import RULES, Move, Verdict, move
from ganger.core.task import NewTask
from ganger.engine.store import (
    Change,
    Chunk,
    Datum,
    Edit,
    Edits,
    Exchange,
    Exchanged,
    Note,
    Progress,
    Store,
    Submission,
    Touch,
)

HOLDERS_RULES: Final = tuple(rule.name for rule in RULES.values() if rule.by_holder)
FAR: Final = 1 << 42


class Held(NamedTuple):
    """A lease that somebody believes in, and the family that it would give access to."""

    task: TaskId
    fence: Fence
    queue: QueueId
    child: TaskId
    stranger: TaskId
    """A waiting task that the child could be linked to."""


Write = Exchange | tuple[Note, ...] | Submission | Edits


def moves(held: Held) -> dict[str, Move]:
    plain = {name: move(held.task, name, held.fence) for name in HOLDERS_RULES}
    later = {name: one._replace(due=FAR) for name, one in plain.items() if name.endswith("_later")}
    return plain | later | {"succeed": plain["succeed"]._replace(result=b"late")}


def notes(held: Held) -> dict[str, Note]:
    task, fence = held.task, held.fence
    return {
        "touch": Note(task, fence, touch=Touch(60_000)),
        "progress": Note(task, fence, progress=Progress(99.0, "late")),
        "datum": Note(task, fence, datum=Datum("late", b"late")),
        "datum if unset": Note(task, fence, datum=Datum("unset", b"late", only_if_unset=True)),
        "datum as blob": Note(task, fence, datum=Datum("blob", blob="00" * 32, size=9)),
        "chunk": Note(task, fence, chunk=Chunk("out", 0, b"late")),
    }


def edits(held: Held) -> dict[str, Edit]:
    return {
        "change": Edit(held.child, change=Change(priority=1, spec=b"late")),
        "kill": Edit(held.child, kill=True),
        "kill itself": Edit(held.task, kill=True),
        "link": Edit(held.child, link=(held.stranger, On.SUCCESS)),
        "unlink": Edit(held.child, unlink=held.task),
        "remove": Edit(held.child, remove=True),
        "close": Edit(held.task, close_group=True),
    }


def submissions(held: Held) -> dict[str, Submission]:
    return {"submit": Submission((NewTask(held.queue, "payload", b"late"),), under=(held.task, held.fence))}


def every_write(held: Held) -> Mapping[str, Write]:
    """All kinds of writes under the lease, each as one request."""
    under = (held.task, held.fence)
    return {
        **{name: Exchange((one,)) for name, one in moves(held).items()},
        **{f"all or nothing {name}": Exchange((one,), all_or_nothing=True) for name, one in moves(held).items()},
        **{name: (one,) for name, one in notes(held).items()},
        **{f"edit {name}": Edits((one,), under=under) for name, one in edits(held).items()},
        **submissions(held),
    }


OPERATIONS: Final[dict[type, str]] = {Exchange: "exchange", tuple: "write", Submission: "submit", Edits: "edit"}
"""Which operation of the store a write is for."""


def is_stale(answer: object) -> bool:
    """Whether the store's answer to one of these writes says that it was refused as stale, and nothing else."""
    match answer:
        case Exchanged(refused) | list(refused):
            return refused == [(0, Verdict.STALE)]
        case _:
            return isinstance(answer, StaleLease)


async def send(store: Store, write: Write) -> object:
    """The answer, or the error that came instead."""
    try:
        answer: object = await getattr(store, OPERATIONS[type(write)])(write)
    except GangerError as error:
        return error
    return answer
