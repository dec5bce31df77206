"""Ids, times and numbers as Disbatch clients write them.

Everything has a face of 24 hexadecimal digits, as MongoDB gives them. That of a task has the second of its creation in
front; queues and nodes, which have no such time, have a part of the store's own number there. So an id of another store
is one that is not here, and never somebody else's task.
"""

import re
from datetime import UTC, datetime
from typing import Any, Final

from ganger.core.errors import BadInput
from ganger.core.ids import TaskId, from_object_id, to_object_id
from ganger.core.showing import show
from ganger.core.task import Task

OWN: Final = "Ganger"
"""The plugin of queues that have none: foreign nodes know none of this name, and leave them alone."""

UNCLAIMED: Final = -1
TERSE: Final = "[terse mode]"
CMD_EXIT: Final = "cmdExit"
CMD_ERR: Final = "cmdErr"
MOST_THREADS: Final = (1 << 31) - 1
_HALF: Final = 0xFFFFFFFF
_OBJECT_ID: Final = re.compile("[0-9a-f]{24}")
_YES: Final = frozenset({"1", "true", "yes", "on"})
_NO: Final = frozenset({"", "0", "false", "no", "off"})


def looks_like_id(text: str) -> bool:
    """Does a path or a parameter mean an id? Whatever else it is, it is a name."""
    return _OBJECT_ID.fullmatch(text) is not None


def say_number(tag: int, number: int) -> str:
    """The face of a queue or a node."""
    return f"{tag & _HALF:08x}{number:016x}"


def say_task(task: Task) -> str:
    return to_object_id(task.created // 1_000, task.id)


def read_task(face: str) -> TaskId | None:
    """Which task may have this face; whoever finds it compares the whole."""
    try:
        return from_object_id(face)
    except BadInput:
        return None


def say_time(wall: int, epoch: bool) -> str | float:
    """A time as text, or as seconds since 1970 with their fractions."""
    if epoch:
        return wall / 1_000
    return datetime.fromtimestamp(wall // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def read_exit(body: bytes) -> int | None:
    """What a process exited with, as its task has it; None if nothing says so."""
    try:
        return int(body)
    except ValueError:
        return None


def read_threads(field: str, value: Any) -> int | None:
    """A limit: a number, or null for none. Forms cannot say null; they leave it empty."""
    if value is None or value == "":
        return None
    number = value if isinstance(value, int) and not isinstance(value, bool) else _read_digits(value)
    if number is None or not 0 <= number <= MOST_THREADS:
        raise BadInput(f"{field} must be a non-negative integer or null", field=field)
    return number


def _read_digits(value: Any) -> int | None:
    plain = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 11
    return int(value) if plain else None


def read_flag(field: str, value: Any) -> bool:
    """Perl's idea of true, in JSON and in an address."""
    text = str(value).lower() if isinstance(value, bool | int | str) else None
    if value is None or text in _NO:
        return False
    if text not in _YES:
        raise BadInput(f"{field} is {show(value, 40)}; write 1 or 0", field=field)
    return True


def read_whole(field: str, value: Any, most: int) -> int:
    number = value if isinstance(value, int) and not isinstance(value, bool) else _read_digits(value)
    if number is None or not 0 <= number <= most:
        raise BadInput(f"{field} is {show(value, 40)}; give a whole number from 0 to {most}", field=field)
    return number
