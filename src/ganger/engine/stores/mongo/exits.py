"""What the process of a task exited with, as strangers of the later dialect read it."""

from collections.abc import Iterable
from typing import Final

from ganger.core.ids import TaskId
from ganger.core.state import Status
from ganger.core.task import EXIT, PLUGIN, Kind
from ganger.engine.stores.mongo.dialect import Dialect
from ganger.engine.stores.mongo.row import Row
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.tables import DATA, datum_key

_RESULT: Final = "result"
_COMMANDS: Final = frozenset({Kind.COMMAND, Kind.SHELL})
_LONGEST: Final = 11


async def load_exits(step: Step, tasks: Iterable[TaskId]) -> None:
    """Have at hand what the processes of these exited with, if it will be shown: one question instead of many."""
    if step.dialect is Dialect.PLAIN:
        return
    rows = [row for task in tasks if (row := await step.row(task)) is not None]
    keys = [(row.task.id, key) for row in rows if (key := _key_of(row)) is not None]
    await step.draft.load(DATA, [datum_key(*pair) for pair in keys])


async def show_exit(step: Step, row: Row, result: bytes | None = None) -> Row:
    """The row with what its process exited with, if it ran to an end. The `result` of a command is just that."""
    key = _key_of(row)
    if step.dialect is Dialect.PLAIN or row.task.status < Status.SUCCEEDED or key is None:
        return row
    if key == _RESULT and result is not None:
        return row._replace(exit=_read(result))
    found = await step.draft.get(DATA, datum_key(row.task.id, key))
    return row._replace(exit=None if found is None else _read(found.datum.value))


def _key_of(row: Row) -> str | None:
    """The data in which a task of this kind leaves it."""
    if row.task.kind.startswith(PLUGIN):
        return EXIT
    return _RESULT if row.task.kind in _COMMANDS else None


def _read(value: bytes | None) -> int | None:
    """Anybody may have written something else there."""
    try:
        return int(value or b"") if len(value or b"") <= _LONGEST else None
    except ValueError:
        return None
