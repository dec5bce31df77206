"""Arguments that are not in the spec itself: results of other tasks, and secrets.

`{"$task": 22}` stands for what task 22 returned, and `"secret:name"` for a value that only the node has.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from ganger.core.errors import BadInput, GangerError
from ganger.core.ids import TaskId
from ganger.core.showing import show
from ganger.node.secrets import Opening, Secrets, may_have_reference
from ganger.wire.specs import FunctionSpec, decode, encode
from ganger.wire.unreadable import UNREADABLE

MARK: Final = "$task"
_QUOTED: Final = b'"$task"'

Resolve = Callable[[TaskId], Awaitable[bytes]]
"""The result of a task as JSON; empty if it has none. Raises errors of `core.errors`."""


def has_references(spec: bytes) -> bool:
    """A quick look: it may say yes where the words are only part of a text, and never says no in error."""
    return _QUOTED in spec or b"\\u0024" in spec


def open_arguments(spec: bytes, secrets: Secrets) -> tuple[bytes, list[bytes]]:
    """The spec with its secrets in place, and their values. BadInput names one that is not there."""
    if not may_have_reference(spec):
        return spec, []
    found: FunctionSpec = decode(spec, FunctionSpec)
    opening = Opening(secrets)
    args, kwargs = opening.put_in_all(found.args), opening.put_in_all(found.kwargs)
    return encode(msgspec.structs.replace(found, args=args, kwargs=kwargs)), opening.values


async def resolve(spec: bytes, read: Resolve) -> bytes:
    """The spec with every reference replaced. BadInput: one names nothing that can be read."""
    found: FunctionSpec = decode(spec, FunctionSpec)
    args = [await _replace(value, read) for value in found.args]
    kwargs = {name: await _replace(value, read) for name, value in found.kwargs.items()}
    return encode(msgspec.structs.replace(found, args=args, kwargs=kwargs))


async def _replace(value: Any, read: Resolve) -> Any:
    if isinstance(value, list):
        return [await _replace(one, read) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {MARK}:
        return await _read(value[MARK], read)
    return {key: await _replace(one, read) for key, one in value.items()}


async def _read(task: Any, read: Resolve) -> Any:
    if not isinstance(task, int) or isinstance(task, bool):
        raise BadInput(f"a reference names a task by its number; this one says {show(task)}")
    try:
        body = await read(TaskId(task))
    except GangerError as error:
        raise BadInput(f"the result of task {task}, which is an argument, cannot be read: {error}") from None
    try:
        return msgspec.json.decode(body) if body else None
    except UNREADABLE:
        raise BadInput(f"the result of task {task}, which is an argument, is not JSON") from None
