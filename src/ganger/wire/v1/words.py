"""The words of `/v1` for what the core knows by codes and kinds."""

from typing import Final, assert_never

from ganger.core.errors import BadInput
from ganger.core.ids import TaskId
from ganger.core.state import Status, status_of
from ganger.core.task import PLUGIN, Kind

SHELL_COMMAND: Final = "shell command"
UNKNOWN: Final = "unknown"
"""The state of a task whose status a stranger set."""

INCIPIENT: Final = "incipient"
_LARGEST_ID: Final = (1 << 63) - 1


def name_type(kind: str) -> str:
    """The task type of a kind."""
    return SHELL_COMMAND if kind == Kind.SHELL else kind


_KINDS: Final = {name_type(kind): kind.value for kind in Kind} | {kind.value: kind.value for kind in Kind}


def read_type(name: str) -> str:
    """The kind that a task type means. What a plugin may be called is the engine's question."""
    if (kind := _KINDS.get(name)) is not None:
        return kind
    if name.startswith(PLUGIN):
        return name
    known = ", ".join(sorted({name_type(kind) for kind in Kind}))
    raise BadInput(f"{name!r:.80} is no type of tasks; use one of {known}, or {PLUGIN}<name>", field="type")


def name_state(code: int) -> str:
    """The state of a task with this status."""
    status = status_of(code)
    return UNKNOWN if status is None else _name(status)


def _name(status: Status) -> str:
    match status:
        case Status.DELAYED | Status.BLOCKED | Status.QUEUED:
            return INCIPIENT
        case Status.CLAIMED | Status.RUNNING:
            return "running"
        case Status.SUCCEEDED:
            return "finished"
        case Status.TERMINATED:
            return "killed"
        case Status.HELD | Status.ORPHANED | Status.CANCELLED | Status.FAILED:
            return status.name.lower()
        case _:
            assert_never(status)


STATES: Final = frozenset(map(_name, Status))


def name_phase(code: int) -> str:
    """The engine's own word for the status."""
    status = status_of(code)
    return UNKNOWN if status is None else status.name.lower()


def read_states(text: str) -> frozenset[Status]:
    """The statuses that a comma list of states means."""
    words = frozenset(split(text))
    if unknown := sorted(words - STATES):
        raise BadInput(f"{unknown[0]!r:.80} is no state; use some of {', '.join(sorted(STATES))}", field="state")
    return frozenset(status for status in Status if _name(status) in words)


def read_id(text: str | int, field: str = "id") -> TaskId:
    """The id of a task: a positive number, as the server gave it."""
    digits = str(text)
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20 and 0 < int(digits) <= _LARGEST_ID):
        raise BadInput(f"{digits!r:.80} is not the id of a task; ids are numbers such as 22", field=field)
    return TaskId(int(digits))


def read_ids(text: str, field: str = "id") -> list[TaskId]:
    """A comma list of ids, each once."""
    ids = list(dict.fromkeys(read_id(word, field) for word in split(text)))
    if not ids:
        raise BadInput(f"{field} names no task; write {field}=22 or {field}=22,23", field=field)
    return ids


def split(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
