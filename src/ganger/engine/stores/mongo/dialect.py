"""The later dialect of Disbatch 4: the same documents with other words, and one limit that means something else.

| in the protocol's text | in later releases |
|---|---|
| a task's `parameters` | `params` |
| a task's `node` is -1 while nobody has it | it is null; a claim takes both |
| a task that has ended has `stdout` and `stderr` | and `complete`, true when both are written |
| | and `cmdExit`, what its process exited with: -1 if a signal ended it, -3 if it could not be started |
| | and `cmdErr`, what went wrong with it |
| a queue's `constructor` | `plugin` |
| a queue's `maxthreads`, a limit on each node | `threads`, a limit over all nodes |
| a queue has `count_todo` and `count_total` | it has none |
| names of queues may repeat | they do not |
| a node has `queues` with their counts | it has none |

Which of the two a database speaks is a setting that is written into it. Looking finds out what others wrote there, and
changes nothing. A database in which both were written has two sorts of programs at work that do not see each other's
tasks: whoever opened it would run one half and let the other wait for ever, so it is refused.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from ganger.core.errors import BadInput, Conflict
from ganger.core.task import PLUGIN

Doc = dict[str, Any]
UNCLAIMED: Final = -1
COMPLETE: Final = "complete"
CMD_EXIT: Final = "cmdExit"
CMD_ERR: Final = "cmdErr"
LATER: Final = frozenset({"params", COMPLETE, CMD_EXIT, CMD_ERR})
"""The words of the later dialect for what a task has."""
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
            "the programs that wrote them do not see each other's tasks; rename the fields of one sort, or use another "
            "database"
        )
    return next(iter(found), None)


def choose_dialect(written: Dialect | None, found: Dialect | None, wanted: Dialect | None) -> Dialect:
    """What a database speaks from now on: what was written into it, what is found there, what is wanted.

    Conflict if they do not agree: a dialect is chosen once.
    """
    speaks = written or found or wanted or Dialect.PLAIN
    if found not in (None, speaks):
        raise Conflict(
            f"the database is set to the {speaks} dialect of Disbatch, and has documents of the {found} one: the "
            "programs that wrote them do not see its tasks, and a database speaks one; rename their fields, or use "
            "another database"
        )
    if wanted not in (None, speaks):
        raise Conflict(
            f"the database has the {speaks} dialect of Disbatch, and {wanted} was asked for: a database speaks one for "
            "ever; ask for the one that it has, or use another database"
        )
    return speaks


def _tell(document: Mapping[str, Any], marks: Mapping[str, Dialect]) -> set[Dialect]:
    return {dialect for name, dialect in marks.items() if name in document}


def task_to_later(task: Doc) -> Doc:
    """A task of the protocol's text in the later words. Attributes that nobody knows stay as they are."""
    told = _rename(task, "parameters", "params")
    if told.get("node") == UNCLAIMED:
        told["node"] = None
    if told.get("status", 0) > 0:
        told.setdefault(COMPLETE, True)
    return told | _tell_ending(task)


def task_from_later(task: Doc) -> Doc:
    """The same backwards. How a process ended stays where it is if a stranger says so: the text has no words for it."""
    told = _rename(task, "params", "parameters")
    if "node" in told and told["node"] is None:
        told["node"] = UNCLAIMED
    if told.get(COMPLETE) is True:
        del told[COMPLETE]
    if CMD_ERR in told and told[CMD_ERR] == (told.get("ganger") or {}).get("reason"):
        del told[CMD_ERR]
    return told


def queue_to_later(queue: Doc, max_active: int | None) -> Doc:
    """A queue in the later words: its limit is the one over all nodes, which the text has no field for."""
    told = _rename(queue, "constructor", "plugin")
    told.pop("maxthreads", None)
    for name in _COUNTS:
        told.pop(name, None)
    return {**told, "threads": max_active}


def _tell_ending(task: Doc) -> Doc:
    """What went wrong with a plugin's task of ours."""
    reason = task.get("ganger.reason")
    if reason and task.get("status", 0) > 1 and str(task.get("ganger.kind")).startswith(PLUGIN):
        return {CMD_ERR: reason}
    return {}


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


def read_task(dialect: Dialect, task: Doc) -> Doc:
    """A document of a database in the words of the text."""
    return task if dialect is Dialect.PLAIN else task_from_later(task)


def read_queue(dialect: Dialect, queue: Doc) -> tuple[Doc, int | None]:
    """The same of a queue, with its limit over all nodes, if the dialect has one."""
    return (queue, None) if dialect is Dialect.PLAIN else queue_from_later(queue)


def _rename(document: Doc, old: str, new: str) -> Doc:
    return {new if name == old else name: value for name, value in document.items()}
