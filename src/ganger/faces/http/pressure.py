"""When a server is asked for more than it can do, it says so at once, and goes on with what it can do.

A request that has come waits until the loop has begun those before it. While that takes a moment all is well, also if a
thousand come together. If it stays so, more comes than can be done, and whatever is taken in now only makes the others
wait: then a request that begins late is refused, which costs little, until none has been late for a while.
"""

from typing import Final

_MOMENT: Final = 0.1
_CALM: Final = 1.0


class Pressure:
    """Whether the server is behind. Times are seconds of the loop's clock."""

    def __init__(self, late: float) -> None:
        self._late = late
        self._since = self._until = 0.0
        self._last = -_CALM

    def refuses(self, arrived: float, now: float) -> bool:
        """Is a request that came then, and begins now, one too many?"""
        if now - arrived <= self._late:
            return False
        if now - self._last > _MOMENT:
            self._since = now
        self._last = now
        if now < self._until or now - self._since > _MOMENT:
            self._until = now + _CALM
            return True
        return False
