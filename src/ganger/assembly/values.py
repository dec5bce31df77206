"""Settings that are more than a text: durations, sizes, numbers. BadInput names the one that is wrong."""

from collections.abc import Callable
from typing import Final

from ganger.core import units
from ganger.core.errors import BadInput

_LARGEST: Final = 1 << 40


def read_time(name: str, text: str, least: int = 0) -> int:
    """Milliseconds."""
    length = _read(units.read_duration, name, text)
    if length < least:
        raise BadInput(f"{name} is {text!r:.40}; it must be at least {least}ms", field=name)
    return length


def read_size(name: str, text: str) -> int:
    """Bytes."""
    return _read(units.read_size, name, text)


def _read(read: Callable[[str], int], name: str, text: str) -> int:
    try:
        return read(text)
    except BadInput as error:
        raise BadInput(f"{name} is wrong: {error.message}", field=name) from None


def read_whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and 0 < int(text) <= _LARGEST):
        raise BadInput(f"{name} is {text!r:.40}; give a whole number from 1 to {_LARGEST}", field=name)
    return int(text)
