"""Lengths of time as people write them, in the milliseconds that everything here counts."""

from datetime import timedelta
from typing import Final

from ganger.core.errors import BadNumber

Span = int | timedelta
"""A length of time: whole milliseconds, or a timedelta."""

_MILLISECOND: Final = timedelta(milliseconds=1)


def to_ms(span: Span, field: str) -> int:
    """A length of time in milliseconds; BadNumber if it is none."""
    if isinstance(span, timedelta):
        return round(span / _MILLISECOND)
    if not isinstance(span, int) or isinstance(span, bool):
        raise BadNumber(f"{field} is {span!r:.80}; give whole milliseconds or a timedelta", field=field)
    return span
