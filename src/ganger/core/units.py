"""Durations and sizes as people write them, in settings, on the command line and in files."""

import re
from typing import Final

from ganger.core.errors import BadInput

_TIMES: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(ms|s|m|h|d)", re.ASCII)
_DURATION: Final = re.compile(rf"(?:{_PART.pattern}){{1,5}}", re.ASCII)
_SECONDS: Final = re.compile(r"\d{1,15}(?:\.\d{1,9})?", re.ASCII)
_SIZES: Final = {
    "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}  # fmt: skip
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([kMGT]?B|[KMGT]iB)", re.ASCII)
_MOST: Final = 1 << 53
"""Milliseconds or bytes: larger numbers are exact nowhere, and mean `for ever` in some places."""


def read_duration(text: str) -> int:
    """Milliseconds: 250ms, 90s, 5m, 1.5h, 2d, several of them as 2m30s, or seconds without a unit. Raises BadInput."""
    written = f"{text}s" if _SECONDS.fullmatch(text) else text
    parts = _PART.findall(written) if _DURATION.fullmatch(written) else []
    length = round(sum(float(number) * _TIMES[unit] for number, unit in parts))
    if not parts or length >= _MOST:
        raise BadInput(f"{text!r:.40} is not a duration; write 250ms, 90s, 5m, 1.5h, 2d or 2m30s")
    return length


def read_size(text: str) -> int:
    """Bytes: 812B, 500MB, 1.5GiB, with a unit always. Raises BadInput."""
    found = _SIZE.fullmatch(text)
    size = _MOST if found is None else round(float(found[1]) * _SIZES[found[2]])
    if size >= _MOST:
        raise BadInput(f"{text!r:.40} is not a size; write 812B, 500MB, 2GB, 500MiB or 1.5GiB")
    return size
