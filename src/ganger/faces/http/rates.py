"""How often somebody may try: a bucket that fills by itself, one for each address, for so many addresses at most."""

from collections import OrderedDict
from typing import Final

from ganger.core.clock import Clock

_MOST: Final = 1_024


class Rates:
    """Each name may do `rate` things a second, and as many at once."""

    def __init__(self, clock: Clock, rate: float) -> None:
        self._clock = clock
        self._rate = rate
        self._spent: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def is_spent(self, name: str) -> bool:
        return self._left(name) < 1

    def spend(self, name: str) -> None:
        self._spent[name] = (max(0.0, self._left(name) - 1), self._clock.now())
        self._spent.move_to_end(name)
        if len(self._spent) > _MOST:
            self._spent.popitem(last=False)

    def _left(self, name: str) -> float:
        left, since = self._spent.get(name, (self._rate, 0))
        return min(self._rate, left + (self._clock.now() - since) / 1000 * self._rate)
