"""When a server is asked for more than it can do, it says so at once, and goes on with what it can do.

It can be behind in two places, and a moment of either is no harm, also if a thousand requests come together.

*Before they begin.* A request that has come waits until the loop has begun those before it. If that stays so, more
comes than can be read: a request that begins late is refused, which costs little, until none has been late for a while.

*Before they are done.* The loop is quick and the store is not: requests are begun in time and then wait for each other,
a thousand of them for seconds. If for a moment none was done quickly, no more are taken in than were done in such a
time, so that those wait no longer. That ends when all have been done very quickly for a while: to let in all who come
as soon as there is room would make them wait again. Those that are not done say nothing: one that waits for a slow
client would stop all the others.

Requests are done in groups, so room for many comes at once. To begin so many takes the loop long, and whoever is to be
refused stands behind them. So only some begin in each turn of the loop: there are others in hand meanwhile.
"""

from typing import Final

_MOMENT: Final = 0.1
_CALM: Final = 1.0
_NEVER: Final = float("inf")
FEW: Final = 16
"""So many may begin together in any case."""


class Pressure:
    """Whether requests of one sort are too many. Times are seconds of the loop's clock.

    `late` is how long a request may take to begin, `slow` how long it may take to be done.
    """

    def __init__(self, late: float, slow: float) -> None:
        self._late = late
        self._slow = slow
        self._since = self._until = 0.0
        self._last = self._slow_last = self._counted = -_CALM
        self._slow_since = _NEVER
        self._done = self._pace = 0

    def note(self, began: float, now: float) -> None:
        """One is done."""
        self._count(now)
        took, behind = now - began, self.is_behind(now)
        if took > (self._slow / 4 if behind else self._slow):
            self._slow_last = now
            self._slow_since = min(self._slow_since, now)
        elif not behind:
            self._slow_since = _NEVER

    def _count(self, now: float) -> None:
        self._done += 1
        if now - self._counted >= self._slow:
            self._pace, self._done, self._counted = self._done, 0, now

    def is_behind(self, now: float) -> bool:
        """Are requests done too late?"""
        return now - self._slow_since > _MOMENT and now - self._slow_last <= _CALM

    def is_full(self, at_once: int, now: float) -> bool:
        """Are so many as much as is done in time, while the server is behind?"""
        return at_once > self._pace and self.is_behind(now)

    def is_hasty(self, coming: int, now: float) -> bool:
        """Are so many as much as may begin together, while the server is behind?"""
        return coming >= max(FEW, self._pace // 12) and self.is_behind(now)

    def is_late(self, arrived: float, now: float) -> bool:
        """Does a request that came then begin too late, now, while the server is behind?"""
        if now - arrived <= self._late:
            return False
        if now - self._last > _MOMENT:
            self._since = now
        self._last = now
        if now < self._until or now - self._since > _MOMENT:
            self._until = now + _CALM
            return True
        return False
