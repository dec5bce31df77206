"""Which results the spec of a function asks for: `{"$task": 22}` among its arguments is what task 22 returned.

Whoever may not look at a task may not have its result handed to a function either.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ganger.core.ids import TaskId
from ganger.core.task import Kind
from ganger.wire.unreadable import UNREADABLE
from ganger.wire.values import TASK

_QUOTED: Final = b'"$task"'


def has_references(spec: bytes) -> bool:
    """A quick look: it may say yes where the words are only part of a text, and never says no in error."""
    return _QUOTED in spec or b"\\u00" in spec


def list_references(kind: str, spec: bytes) -> set[TaskId]:
    """The tasks that are there already whose results the task with this spec would be given."""
    if kind != Kind.FUNCTION or not has_references(spec):
        return set()
    try:
        found = msgspec.json.decode(spec)
    except UNREADABLE:
        # No node can read it either.
        return set()
    return {TaskId(number) for number in _find_all(found) if number > 0}


def _find_all(value: Any) -> Iterator[int]:
    """Without recursion: it may be as deep as its writer liked."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            left += one.values()
            number = one.get(TASK)
            if isinstance(number, int) and not isinstance(number, bool):
                yield number
