"""How a worker does: one that fails again and again is given jobs at growing distances, and is set aside in the end.

A worker that is broken (a library is missing, its disk is full) fails every job within milliseconds, and would take the
attempts of all jobs there are before anybody looks. So each failure in a row makes the pause before its next job twice
as long, and after some it is set aside: for a while it gets nothing, and then one job to show that it is well. One
success makes all of that forgotten, and so does an operator who sends it away.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from ganger.core.clock import Clock

FIRST_REST: Final = 100
LONGEST_REST: Final = 5_000
MOST_FAILURES: Final = 10
"""So many in a row, and it is set aside."""

ASIDE: Final = 60_000
_MOST_KNOWN: Final = 100_000


class _Row(NamedTuple):
    """So many failures without a success, and the moment until which it rests."""

    failures: int
    until: int


_NONE: Final = _Row(0, 0)


class Conduct:
    """What is known of workers, by their ids. Times are milliseconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rows: OrderedDict[str, _Row] = OrderedDict()

    def note_failure(self, identity: str) -> bool:
        """It failed once more; is it set aside for that?"""
        failures = self._rows.pop(identity, _NONE).failures + 1
        aside = failures >= MOST_FAILURES
        rest = ASIDE if aside else min(FIRST_REST << (failures - 1), LONGEST_REST)
        self._rows[identity] = _Row(failures, self._clock.now() + rest)
        if len(self._rows) > _MOST_KNOWN:
            self._rows.popitem(last=False)
        return aside

    def forgive(self, identity: str) -> None:
        """It did well, or somebody has looked after it."""
        self._rows.pop(identity, None)

    def find_rest(self, identity: str) -> int:
        """For how long it gets no job; 0 if it may have one."""
        return max(0, self._rows.get(identity, _NONE).until - self._clock.now())

    def is_aside(self, identity: str) -> bool:
        return self._rows.get(identity, _NONE).failures >= MOST_FAILURES
