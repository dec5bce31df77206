"""How often something is done that takes the longer the more there is: a small part of the time, whatever it takes."""

from types import TracebackType
from typing import Final

from ganger.core.clock import Clock

_PART: Final = 20
"""What took one second is not done again for twenty."""


class Pace:
    """Around what is paced: `with pace: ...`, if it is due."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = 0
        self._next = 0

    def is_due(self) -> bool:
        return self._clock.now() >= self._next

    def __enter__(self) -> None:
        self._began = self._clock.now()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        now = self._clock.now()
        self._next = now + (now - self._began) * _PART
