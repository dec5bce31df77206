"""The later dialect of Disbatch 4: the same documents with other words, and one limit that means something else.

| in the protocol's text | in later releases |
|---|---|
| a task's `parameters` | `params` |
| a task's `node` is -1 while nobody has it | it is null; a claim takes both |
| a task that has ended has `stdout` and `stderr` | and `complete`, true when both are written |
| | `cmdExit` and `cmdErr`, if the plugin's process ended badly |
| a queue's `constructor` | `plugin` |
| a queue's `maxthreads`, a limit on each node | `threads`, a limit over all nodes |
| a queue has `count_todo` and `count_total` | it has none |

Which of the two a database speaks is a setting that is written into it. Looking finds out what others wrote there, and
changes nothing. A database in which both were written has two sorts of programs at work that do not see each other's
tasks: whoever opened it would run one half and let the other wait for ever, so it is refused.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from ganger.core.errors import BadInput, Conflict

Doc = dict[str, Any]
UNCLAIMED: Final = -1
COMPLETE: Final = "complete"
CMD_EXIT: Final = "cmdExit"
CMD_ERR: Final = "cmdErr"
_COUNTS: Final = ("count_todo", "count_total")


class Dialect(StrEnum):
    """Which words the documents of a database have."""

    PLAIN = "plain"
    LATER = "later"


_TASK_MARKS: Final = {"parameters": Dialect.PLAIN, "params": Dialect.LATER}
_QUEUE_MARKS: Final = {"constructor": Dialect.PLAIN, "plugin": Dialect.LATER}


def read_dialect(text: str) -> Dialect:
    """The dialect that a setting names."""
    try:
        return Dialect(text)
    except ValueError:
        raise BadInput(f"dialect is {text!r:.40}; write plain or later", field="dialect") from None


def find_dialect(tasks: Iterable[Mapping[str, Any]], queues: Iterable[Mapping[str, Any]]) -> Dialect | None:
    """The dialect of some documents; None if there are none. Conflict if they are of both."""
    found = {dialect for task in tasks for dialect in _tell(task, _TASK_MARKS)}
    found |= {dialect for queue in queues for dialect in _tell(queue, _QUEUE_MARKS)}
    if len(found) > 1:
        raise Conflict(
            "the database has documents of both Disbatch dialects (parameters and params, or constructor and plugin): "
            "the programs that wrote them do not see each other's tasks; change those of one sort, then start again"
        )
    return next(iter(found), None)


def choose_dialect(written: Dialect | None, found: Dialect | None, wanted: Dialect | None) -> Dialect:
    """What a database speaks from now on: what was written into it, what is found there, what is wanted.

    Conflict if they do not agree: a dialect is chosen once.
    """
    said = [dialect for dialect in (written, found, wanted) if dialect is not None]
    if len(set(said)) > 1:
        raise Conflict(
            f"the database speaks the {said[0]} dialect of Disbatch, and {said[-1] if wanted else said[1]} was asked "
            "for or found: a database speaks one; set the dialect that it has, or use another database"
        )
    return said[0] if said else Dialect.PLAIN


def _tell(document: Mapping[str, Any], marks: Mapping[str, Dialect]) -> set[Dialect]:
    return {dialect for name, dialect in marks.items() if name in document}


def task_to_later(task: Doc) -> Doc:
    """A task of the protocol's text in the later words. Attributes that nobody knows stay as they are."""
    told = _rename(task, "parameters", "params")
    if told.get("node") == UNCLAIMED:
        told["node"] = None
    if told.get("status", 0) > 0:
        told.setdefault(COMPLETE, True)
    return told


def task_from_later(task: Doc) -> Doc:
    """The same backwards. How a plugin's process ended stays where it is, since the text has no words for it."""
    told = _rename(task, "params", "parameters")
    if "node" in told and told["node"] is None:
        told["node"] = UNCLAIMED
    if told.get(COMPLETE) is True:
        del told[COMPLETE]
    return told


def queue_to_later(queue: Doc, max_active: int | None) -> Doc:
    """A queue in the later words: its limit is the one over all nodes, which the text has no field for."""
    told = _rename(queue, "constructor", "plugin")
    told.pop("maxthreads", None)
    for name in _COUNTS:
        told.pop(name, None)
    return {**told, "threads": max_active}


def queue_from_later(queue: Doc) -> tuple[Doc, int | None]:
    """The queue in the words of the text, and its limit over all nodes."""
    told = _rename(queue, "plugin", "constructor")
    limit = told.pop("threads", None)
    told.setdefault("maxthreads", None)
    return told, limit


def filter_unclaimed(dialect: Dialect) -> Any:
    """What the `node` of a task is that may be claimed. The later releases take both words for nobody."""
    return UNCLAIMED if dialect is Dialect.PLAIN else {"$in": [None, UNCLAIMED]}


def say_unclaimed(dialect: Dialect) -> int | None:
    return UNCLAIMED if dialect is Dialect.PLAIN else None


def tell_ending(code: int | None, error: str | None) -> Doc:
    """The fields of a task whose plugin's process ended by itself: nothing if it ended well."""
    told: Doc = {}
    if code:
        told[CMD_EXIT] = code
    if error:
        told[CMD_ERR] = error
    return told


def _rename(document: Doc, old: str, new: str) -> Doc:
    return {new if name == old else name: value for name, value in document.items()}
