"""Arguments and results as JSON, each of them what it was when it is read again.

JSON has texts, finite numbers, booleans, null, lists, and objects with texts as keys; those go as they are. For all
else there are two ways. Where the function says by an annotation what a parameter or its result is, the value goes in
the form that JSON would have for it (a date as text, a dataclass as an object), if the annotation makes the same value
of that again. Elsewhere it goes in a *word*, an object with one key: `{"$bytes": "aGk="}`, `{"$set": [1, 2]}`,
`{"$float": "nan"}`. What has neither is refused where it is given: nothing arrives as something else.
"""

import base64
import binascii
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final, get_args, get_origin
from uuid import UUID

import msgspec

from ganger.core.errors import BadInput

TASK: Final = "$task"
"""The word for the result of a task: see `client/references.py`."""

_ENCODER: Final = msgspec.json.Encoder()
_SCALARS: Final = frozenset({str, int, bool, type(None)})
_PLAIN: Final = frozenset({str, int, float, bool, type(None), list, dict, object, Any})
_NUMBERS: Final = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}

_WORDS: Final[dict[str, Callable[[Any], Any]]] = {
    "$float": lambda word: _NUMBERS[word],
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$datetime": lambda text: msgspec.convert(text, datetime),
    "$date": lambda text: msgspec.convert(text, date),
    "$time": lambda text: msgspec.convert(text, time),
    "$timedelta": lambda text: msgspec.convert(text, timedelta),
    "$uuid": lambda text: msgspec.convert(text, UUID),
    "$decimal": Decimal,
    "$complex": lambda pair: complex(*pair),
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$dict": dict,
}
"""How each word is read; lists in it have been read already."""

_NAMES: Final[dict[type, str]] = {
    bytes: "$bytes", datetime: "$datetime", date: "$date", time: "$time", timedelta: "$timedelta", UUID: "$uuid",
    Decimal: "$decimal",
}  # fmt: skip
_LISTS: Final[dict[type, str]] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}
_RESERVED: Final = frozenset(_WORDS) | {TASK}


def encode(value: Any, hook: Callable[[Any], Any] | None = None) -> bytes:
    """What `spell` made, as JSON. `hook` is asked for what the encoder does not know."""
    return _ENCODER.encode(value) if hook is None else msgspec.json.encode(value, enc_hook=hook)


def spell(value: Any, hint: Any = Any, keep: type | tuple[type, ...] = ()) -> Any:
    """The value in what JSON has: plainly if the annotation leads back to it, else in words.

    What is of a type in `keep` stays as it is, for whoever encodes it. BadInput: there is no way to send it.
    """
    kind = type(value)
    if kind in _SCALARS or (kind is float and isfinite(value)):
        return value
    if needs_conversion(hint) and (plain := _spell_plainly(value, hint)) is not None:
        return plain
    return _spell(value, keep)


def _spell_plainly(value: Any, hint: Any) -> Any:
    """The form that JSON has for it, if the annotation makes the same of it again; else None."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_take_apart)
        again = convert(msgspec.json.decode(_ENCODER.encode(plain)), hint)
    except (TypeError, ValueError, NotImplementedError, OverflowError, RecursionError):
        return None
    return plain if _is_same(again, value) else None


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _take_apart(value: Any) -> Any:
    """What the encoder does not know: paths, and models of pydantic."""
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    if hasattr(value, "model_dump") and hasattr(type(value), "model_validate"):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a {type(value).__qualname__} cannot be sent")


def _spell(value: Any, keep: type | tuple[type, ...]) -> Any:
    kind = type(value)
    if kind in _SCALARS or isinstance(value, keep):
        return value
    if kind is float:
        return value if isfinite(value) else {"$float": str(value)}
    if kind is list:
        return [_spell(one, keep) for one in value]
    if kind is dict:
        return _spell_dict(value, keep)
    if kind in _LISTS:
        return {_LISTS[kind]: [_spell(one, keep) for one in value]}
    if kind in _NAMES:
        return {_NAMES[kind]: msgspec.to_builtins(value)}
    if kind is complex:
        return {"$complex": [_spell(value.real, keep), _spell(value.imag, keep)]}
    raise BadInput(
        f"a {kind.__module__}.{kind.__qualname__} cannot be told from what JSON has: annotate it (a dataclass, an Enum,"
        " a Path, a model are built again from their annotation), or send plain values"
    )


def _spell_dict(value: dict[Any, Any], keep: type | tuple[type, ...]) -> dict[str, Any]:
    if all(type(key) is str for key in value) and not (len(value) == 1 and value.keys() <= _RESERVED):
        return {key: _spell(one, keep) for key, one in value.items()}
    return {"$dict": [[_spell(key, keep), _spell(one, keep)] for key, one in value.items()]}


def has_words(body: bytes) -> bool:
    """A quick look: it may say yes where there are none, and never says no in error."""
    return b'"$' in body or b"\\u0024" in body


def read(value: Any) -> Any:
    """A decoded value with what its words say in their place. What looks like a word and is none stays as it is."""
    if isinstance(value, list):
        return [read(one) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((word, said),) = value.items()
        if (reader := _WORDS.get(word)) is not None:
            try:
                return reader(read(said))
            except (TypeError, ValueError, KeyError, ArithmeticError, binascii.Error):
                return value
    return {key: read(one) for key, one in value.items()}


def decode(body: bytes) -> Any:
    """A result or an argument from JSON. Raises msgspec.DecodeError."""
    value = msgspec.json.decode(body) if body else None
    return read(value) if has_words(body) else value


def needs_conversion(hint: Any) -> bool:
    """Does a parameter or a result of this type have to be made of what JSON has?"""
    if hint in _PLAIN:
        return False
    parts = get_args(hint)
    if parts and all(part is Ellipsis or not needs_conversion(part) for part in parts):
        return get_origin(hint) in (tuple, set, frozenset) or (get_origin(hint) is dict and parts[0] is not str)
    return _is_known(hint)


def _is_known(hint: Any) -> bool:
    """Does the converter know the type? A parameter of a class of one's own may be given by a default alone."""
    try:
        msgspec.json.Decoder(hint)
    except TypeError:
        return False
    return True


def convert(value: Any, hint: Any) -> Any:
    """The value in the type that is asked for. Raises msgspec.ValidationError, a ValueError."""
    return msgspec.convert(value, hint, str_keys=True, dec_hook=_build)


def _build(kind: Any, value: Any) -> Any:
    """What the converter does not know: paths, models of pydantic, and what has its type already."""
    if isinstance(kind, type) and isinstance(value, kind):
        return value
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    if hasattr(kind, "__fspath__") and isinstance(value, str):
        return kind(value)
    raise TypeError(f"a {getattr(kind, '__qualname__', kind)} cannot be made of a {type(value).__qualname__}")
