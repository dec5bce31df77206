"""How many jobs may lie in a warm process: what it will do in a few milliseconds, by what the last ones took."""

from typing import Final

_FIRST: Final = 4
_WEIGHT: Final = 0.3


class Pace:
    """The pace of one process that executes `slots` jobs at once."""

    def __init__(self, ahead: int, most: int, slots: int) -> None:
        self._ahead = ahead
        self._most = most
        self._slots = slots
        self._span: float | None = None
        self._last: int | None = None
        self.window = slots if slots > 1 else _FIRST

    def wake(self, now: int) -> None:
        """It had nothing to do and is given something now."""
        self._last = now

    def note(self, now: int, done: int, left: int) -> None:
        """So many have ended by now, and so many are left in the process."""
        if self._last is not None:
            each = max(now - self._last, 0.02 * done) / done
            self._span = each if self._span is None else self._span + _WEIGHT * (each - self._span)
            self._choose()
        self._last = now if left else None

    def slow_down(self, age: int) -> None:
        """A job has taken so long already."""
        self._span = max(self._span or 0.0, float(age))
        self._choose()

    def _choose(self) -> None:
        if self._span:
            ahead = min(self._ahead / self._span, self.window * 2)
            self.window = max(self._slots, min(self._most, int(ahead)), 1)
