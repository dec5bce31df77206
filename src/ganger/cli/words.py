"""How values are read from the command line and told to people: durations, times, statuses, ids."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from ganger.core import units
from ganger.core.errors import BadInput
from ganger.core.ids import TaskId
from ganger.core.state import Status, status_of

if TYPE_CHECKING:
    from ganger.engine.engine import Engine

_SHOWN: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
_FOREVER_MS: Final = 1 << 53
_GROUPS: Final = {
    "open": frozenset({Status.DELAYED, Status.HELD, Status.BLOCKED, Status.QUEUED, Status.CLAIMED, Status.RUNNING}),
    "ended": frozenset({Status.ORPHANED, Status.CANCELLED, Status.TERMINATED, Status.SUCCEEDED, Status.FAILED}),
}


def read_duration(text: str) -> int:
    """A length of time as milliseconds: 90 (seconds), 250ms, 1.5h, 2d."""
    try:
        return units.read_duration(text)
    except BadInput as error:
        raise click.BadParameter(error.message) from None


def read_size(text: str) -> int:
    """A number of bytes that is not 0: 812B, 500MB, 1.5GiB."""
    try:
        size = units.read_size(text)
    except BadInput as error:
        raise click.BadParameter(error.message) from None
    if size == 0:
        raise click.BadParameter(f"{text!r:.40} is nothing; give at least 1B")
    return size


def read_id(text: str) -> TaskId:
    """The id of a task: a positive number, as `ganger submit` prints it."""
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 1 << 63:
        raise click.BadParameter(f"{text!r} is not the id of a task; ids are numbers such as 22")
    return TaskId(int(text))


def read_name(text: str) -> "TaskId | str":
    """The id of a task, its key, the GUID of a job, or the object id of a document."""
    return read_id(text) if text.isascii() and text.isdecimal() else text


async def find_task(engine: "Engine", name: "TaskId | str") -> TaskId:
    """The task that is meant; TaskNotFound if no task has this key, GUID or object id."""
    from ganger.assembly.registry import find_faces
    from ganger.core.errors import TaskNotFound
    from ganger.engine.store import Query
    from ganger.wire.disbatch.words import looks_like_id
    from ganger.wire.jobs.words import read_guid

    if isinstance(name, int):
        return name
    found = read_guid((await engine.store.directory()).tag, name)
    if found is None and name.isprintable():
        found = next((task.id for task in (await engine.find(Query(key=name, most=1))).tasks), None)
    if found is None and looks_like_id(name) and (faces := find_faces(engine.store)) is not None:
        found = await faces.find_task(name)
    if found is None:
        raise TaskNotFound(f"no task has the id or the key {name!r:.80}", key=name[:200])
    return found


def read_variable(text: str) -> tuple[str, str]:
    """A variable for a command: NAME=VALUE, or NAME with the value that it has here."""
    from ganger.assembly.settings import find_surroundings

    name, equals, value = text.partition("=")
    if not name:
        raise click.BadParameter(f"{text!r} is neither NAME=VALUE nor NAME")
    if equals:
        return name, value
    here = find_surroundings()
    if name not in here:
        raise click.BadParameter(f"there is no variable {name} here: write {name}=VALUE")
    return name, here[name]


STATUS_WORDS: Final = (*(status.name.lower() for status in Status), *_GROUPS)


def list_statuses(words: tuple[str, ...]) -> frozenset[Status]:
    """The statuses that the words mean: each its own, `open` and `ended` several."""
    return frozenset[Status]().union(*(_GROUPS.get(word) or {Status[word.upper()]} for word in words))


def say_status(code: int) -> str:
    """The word for a status; a failure with a code of its own shows it."""
    status = status_of(code)
    if status is None:
        return f"unknown({code})"
    return status.name.lower() if code == status else f"{status.name.lower()}({code})"


def say_length(milliseconds: int) -> str:
    """A length of time in two characters or a few more: 850ms, 42s, 3m, 5h, 12d."""
    if milliseconds < 1_000:
        return f"{max(0, milliseconds)}ms"
    unit, size = next((unit, size) for unit, size in _SHOWN if milliseconds >= size)
    return f"{milliseconds // size}{unit}"


def say_duration(milliseconds: int) -> str:
    """A length of time exactly, as it may be written: 2m30s, 1h, 250ms, 1s500ms."""
    parts, left = [], milliseconds
    for unit, size in (*_SHOWN, ("ms", 1)):
        count, left = divmod(left, size)
        parts += [f"{count}{unit}"] if count else []
    return "".join(parts) or "0s"


def say_time(wall: int | None) -> str:
    """A wall time as people here read it; empty for none."""
    if wall is None:
        return ""
    if wall >= _FOREVER_MS:
        return "never"
    return datetime.fromtimestamp(wall / 1000, UTC).astimezone().isoformat(" ", "milliseconds")


def say_second(wall: int) -> str:
    """A wall time to the second, where there is little room."""
    return say_time(wall)[: len("2026-01-01 00:00:00")]


def say_bytes(size: int, digits: int = 1) -> str:
    """A size with a unit: 812 B, 3.4 MB."""
    number, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while number >= 1000 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{number:.0f} {units[0]}" if units[0] == "B" else f"{number:.{digits}f} {units[0]}"


def count_lines(lines: int) -> str:
    return "1 line" if lines == 1 else f"{lines} lines"
