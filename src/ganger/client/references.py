"""Results of other tasks as arguments: in a spec {"$task": 22} stands for what task 22 returned.

Before a graph is submitted its tasks have no ids: there {"$task": -3} is the third task of the same submission, and
whoever stores the submission puts the id in its place.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.errors import BadInput
from ganger.wire import values
from ganger.wire.specs import FunctionSpec, Spec, decode

MARK: Final = "$task"


class Referable:
    """A task whose result can be an argument of another. `number` is its id, or -n for the n-th of its graph."""

    @property
    def number(self) -> int:
        raise NotImplementedError


class Reference:
    """The result of a task, where a value is expected."""

    __slots__ = ("source",)

    def __init__(self, source: Referable) -> None:
        self.source = source


class Encoded(NamedTuple):
    """A spec, and the tasks whose results it asks for."""

    spec: bytes
    sources: tuple[Referable, ...]


def encode(spec: Spec) -> Encoded:
    """The spec as JSON. BadInput: an argument has a type that JSON cannot carry."""
    plain = encode_plainly(spec)
    return _encode_looking(spec) if plain is None else Encoded(plain, ())


def encode_plainly(spec: Spec) -> bytes | None:
    """The spec as JSON, if it asks for no results and has nothing that JSON does not know."""
    try:
        return values.encode(spec)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None


def _encode_looking(spec: Spec) -> Encoded:
    """As `encode`, with a look at what JSON does not know: it may be a task whose result is asked for."""
    sources: list[Referable] = []

    def replace(value: object) -> dict[str, int]:
        source = value.source if isinstance(value, Reference) else value
        if not isinstance(source, Referable):
            raise NotImplementedError(f"a {type(value).__qualname__} cannot be sent")
        sources.append(source)
        return {MARK: source.number}

    try:
        body = values.encode(spec, replace)
    except (TypeError, ValueError, NotImplementedError, OverflowError, RecursionError) as error:
        raise BadInput(f"the arguments are not JSON: {error}; send plain values, or write them to a file") from None
    return Encoded(body, tuple(dict.fromkeys(sources)))


def fill_in(spec: bytes, ids: Sequence[int]) -> bytes:
    """The spec of a function with the ids of the submission in place of the numbers of its tasks."""
    found: FunctionSpec = decode(spec, FunctionSpec)
    args, kwargs = _fill(found.args, ids), _fill(found.kwargs, ids)
    return msgspec.json.encode(msgspec.structs.replace(found, args=args, kwargs=kwargs))


def _fill(value: Any, ids: Sequence[int]) -> Any:
    if isinstance(value, list):
        return [_fill(one, ids) for one in value]
    if not isinstance(value, dict):
        return value
    number = value.get(MARK)
    if value.keys() == {MARK} and isinstance(number, int) and -len(ids) <= number < 0:
        return {MARK: ids[-number - 1]}
    return {key: _fill(one, ids) for key, one in value.items()}
