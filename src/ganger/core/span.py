"""Lengths of time as users write them in Python: seconds. The engine and its stores count milliseconds."""

import math
from datetime import timedelta
from typing import Final

from ganger.core.errors import BadInput, BadNumber
from ganger.core.units import read_duration

Span = float | timedelta | str
"""A length of time: seconds as a number, a timedelta, or a text such as "5m", "250ms" or "1h30m"."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_LONGEST: Final = float(1 << 53)


def to_ms(span: Span, field: str) -> int:
    """A length of time in whole milliseconds; BadNumber if it is none."""
    if isinstance(span, timedelta):
        return round(span / _MILLISECOND)
    if isinstance(span, str):
        return _read(span, field)
    if isinstance(span, bool) or not isinstance(span, int | float) or not abs(span) < _LONGEST / 1_000:
        raise BadNumber(f'{field} is {span!r:.80}; give seconds, a timedelta, or a text such as "5m"', field=field)
    return round(span * 1_000)


def to_seconds(span: Span | None, field: str) -> float | None:
    """A length of time in seconds, None for none; BadNumber if it is neither. Infinity is none too."""
    if span is None or (isinstance(span, float) and math.isinf(span) and span > 0):
        return None
    return to_ms(span, field) / 1_000


def _read(text: str, field: str) -> int:
    try:
        return read_duration(text)
    except BadInput as error:
        raise BadNumber(f"{field} is wrong: {error.message}", field=field) from None
