"""Which tasks are asked for: by fields that have an index, each with one value or several."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ganger.core.errors import BadInput
from ganger.core.showing import show
from ganger.wire.disbatch.words import UNCLAIMED

INDEXES: Final = (("id",), ("node", "status", "queue"), ("queue", "status"))
FIELDS: Final = frozenset(name for index in INDEXES for name in index)
_CODES: Final = 1 << 31
_MOST: Final = 1_000


class Question(NamedTuple):
    """What must hold of a task; an empty part asks nothing. A node of None is nobody: the task is unclaimed."""

    ids: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    nodes: tuple[str | None, ...] = ()


def read_question(said: Mapping[str, Any]) -> Question:
    """What is asked. Fields that are not indexed are refused, as every other search would read all tasks."""
    if unknown := sorted(set(said) - FIELDS):
        raise BadInput("non-indexed params given", invalid_params=unknown, indexes=[", ".join(one) for one in INDEXES])
    return Question(
        tuple(map(str, _list(said, "id"))),
        tuple(map(str, _list(said, "queue"))),
        tuple(_read_code(value) for value in _list(said, "status")),
        tuple(_read_node(value) for value in _list(said, "node")),
    )


def _list(said: Mapping[str, Any], name: str) -> Sequence[Any]:
    """The values of a field: an array, or a text with commas. What is empty asks nothing."""
    value = said.get(name)
    if name in said and value is None:
        return [None]
    values = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    found = [one.strip() if isinstance(one, str) else one for one in values if one not in (None, "")]
    if len(found) > _MOST or not all(isinstance(one, str | int) and not isinstance(one, bool) for one in found):
        raise BadInput(f"{name} must be a text or a number, or at most {_MOST} of them", field=name)
    return found


def _read_code(value: Any) -> int:
    try:
        code = int(value)
    except (TypeError, ValueError):
        raise BadInput(f"status is {show(value, 40)}; give an integer", field="status") from None
    if not -_CODES <= code < _CODES:
        raise BadInput(f"status is {show(value, 40)}; give an integer of 32 bits", field="status")
    return code


def _read_node(value: Any) -> str | None:
    return None if value is None or str(value) in (str(UNCLAIMED), "null") else str(value)
