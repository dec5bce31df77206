"""Numbers that JSON has no word for: in a spec and in a result {"$float": "nan"} is not-a-number, and "inf" and "-inf"
are the infinities.

The encoder writes such a number as null, and None as well; so only where there is a null the value is looked through,
and all others cost nothing.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any, Final

import msgspec

MARK: Final = "$float"
_QUOTED: Final = b'"$float"'
_NULL: Final = b"null"
_ENCODER: Final = msgspec.json.Encoder()
_NUMBERS: Final = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def encode(value: Any, hook: Callable[[Any], Any] | None = None) -> bytes:
    """The value as JSON, no number of it lost. `hook` is asked for what the encoder does not know, maybe twice."""
    body = _ENCODER.encode(value) if hook is None else msgspec.json.encode(value, enc_hook=hook)
    if _NULL not in body:
        return body
    return _ENCODER.encode(_spell(msgspec.to_builtins(value, str_keys=True, enc_hook=hook)))


def _spell(value: Any) -> Any:
    match value:
        case float() if not isfinite(value):
            return {MARK: str(value)}
        case dict():
            return {key: _spell(one) for key, one in value.items()}
        case list() | tuple():
            return [_spell(one) for one in value]
        case _:
            return value


def has_words(body: bytes) -> bool:
    """A quick look: it may say yes where the words are only part of a text, and never says no in error."""
    return _QUOTED in body or b"\\u0024" in body


def read(value: Any) -> Any:
    """A decoded value with the numbers in the place of their words."""
    match value:
        case {"$float": str(word)} if len(value) == 1 and word in _NUMBERS:
            return _NUMBERS[word]
        case dict():
            return {key: read(one) for key, one in value.items()}
        case list():
            return [read(one) for one in value]
        case _:
            return value
