"""How often somebody may try: a bucket that fills by itself, one for each name, for so many names at most."""

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
        self._keep(name, self._left(name) - 1)

    def take(self, name: str, rate: float | None = None) -> float:
        """Spend one if there is one: then 0, else the seconds until there is. `rate` counts in place of the own one."""
        rate = self._rate if rate is None else rate
        left = self._left(name, rate)
        if left < 1:
            return (1 - left) / rate
        self._keep(name, left - 1)
        return 0.0

    def _keep(self, name: str, left: float) -> None:
        self._spent[name] = (max(0.0, left), self._clock.now())
        self._spent.move_to_end(name)
        if len(self._spent) > _MOST:
            self._spent.popitem(last=False)

    def _left(self, name: str, rate: float | None = None) -> float:
        rate = self._rate if rate is None else rate
        most = max(1.0, rate)
        left, since = self._spent.get(name, (most, 0))
        return min(most, left + (self._clock.now() - since) / 1000 * rate)
