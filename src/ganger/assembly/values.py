"""Settings that are more than a text: times, sizes, numbers. BadInput names the one that is wrong."""

import re
from typing import Final

from ganger.core.errors import BadInput

_TIME: Final = re.compile(r"(\d{1,9})(ms|s|m|h|d|)", re.ASCII)
_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1_000}
_SIZE: Final = re.compile(r"(\d{1,9})(B|KiB|MiB|GiB|TiB)", re.ASCII)
_SIZES: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_LARGEST: Final = 1 << 40


def read_time(name: str, text: str, least: int) -> int:
    """Milliseconds."""
    found = _TIME.fullmatch(text)
    length = int(found[1]) * _UNITS[found[2]] if found else 0
    if length < least:
        raise BadInput(f"{name} is {text!r:.40}; write 500ms, 30s, 2m, 12h or 7d, at least {least} ms", field=name)
    return length


def read_size(name: str, text: str) -> int:
    """Bytes."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise BadInput(f"{name} is {text!r:.40}; write 500MiB, 1GiB or 2TiB", field=name)
    return int(found[1]) * _SIZES[found[2]]


def read_whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and 0 < int(text) <= _LARGEST):
        raise BadInput(f"{name} is {text!r:.40}; give a whole number from 1 to {_LARGEST}", field=name)
    return int(text)
