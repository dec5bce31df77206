"""How many jobs may lie in a warm process: what it will do in a few milliseconds, by what the last ones took."""

from typing import Final

_FIRST: Final = 4
_MEMORY: Final = 0.7
"""What was noted before counts so much at each note, its time and its jobs: one that is late among many changes little.
"""


class Pace:
    """The pace of one process that executes `slots` jobs at once."""

    def __init__(self, ahead: int, most: int, slots: int) -> None:
        self._ahead = ahead
        self._most = most
        self._slots = slots
        self._time = 0.0
        self._jobs = 0.0
        self._last: int | None = None
        self.window = slots if slots > 1 else _FIRST

    @property
    def depth(self) -> int:
        """How many are of use in all: those that lie in the process and, if they are short, as many that wait."""
        return 2 * self.window if self.window > max(self._slots, _FIRST) else self.window

    def wake(self, now: int) -> None:
        """It had nothing to do and is given something now."""
        self._last = now

    def note(self, now: int, done: int, left: int) -> None:
        """So many have ended by now, and so many are left in the process."""
        if self._last is not None:
            self._time = _MEMORY * self._time + max(now - self._last, 0.02 * done)
            self._jobs = _MEMORY * self._jobs + done
            self._choose()
        self._last = now if left else None

    def slow_down(self, age: int) -> None:
        """A job has taken so long already."""
        if self._time < age * self._jobs or not self._jobs:
            self._time, self._jobs = float(age), 1.0
            self._choose()

    def _choose(self) -> None:
        ahead = min(self._ahead * self._jobs / self._time, self.window * 2)
        self.window = max(self._slots, min(self._most, int(ahead)), 1)
