"""What a process knows of strangers between its steps: how far it has looked, what is odd, and whose turn it is.

It is a help and no truth: another process knows other things, and one that begins knows nothing.
"""

from typing import Final

from ganger.core.clock import Clock
from ganger.databases.mongo import ObjectId
from ganger.engine.stores.mongo.odd import Oddities
from ganger.engine.stores.mongo.pace import Pace
from ganger.runtime.telemetry import SILENT, Telemetry

FIRST: Final = ObjectId("0" * 24)
LAST: Final = ObjectId("f" * 24)
SWEEP: Final = 60
"""So many looks at the newest, and then all are looked at again: strangers' clocks may be wrong."""
_OVERLAP: Final = 60
GIVES_WAY: Final = 50
"""Milliseconds in which a node that has freed scarce threads leaves them to others, if there are any."""
CALM: Final = 20_000
"""Milliseconds for which a look that found nothing, and no queue that strangers share, saves the next ones."""
ASKED: Final = 2_500
"""Milliseconds after which it is asked meanwhile whether a stranger has made a queue."""


class Watch:
    """`counting` and `history` are paces: of the counts that strangers read, and of the walk over what has ended.

    `newest` is up to where open tasks were seen, `oldest` down to where ended ones were, `looked` the last open one
    whose status was compared.
    """

    def __init__(self, clock: Clock, telemetry: Telemetry = SILENT) -> None:
        self.counting = Pace(clock)
        self.history = Pace(clock)
        self.odd = Oddities(telemetry)
        self.newest = FIRST
        self.oldest = LAST
        self.looked = 0
        self._looks = 0
        self._clock = clock
        self._calm: tuple[int, int] | None = None
        self._ask_at = 0
        self._freed: dict[tuple[int, str], int] = {}
        self._grabs: dict[str, int] = {}

    def freed(self, queue: int, node: str, now: int) -> None:
        """A node has ended a task of a queue whose threads all nodes share."""
        self._freed[queue, node] = now

    def gives_way(self, queue: int, node: str, now: int) -> bool:
        """Is it for others now to take what the node has freed?"""
        return now < self._freed.get((queue, node), -GIVES_WAY) + GIVES_WAY

    def find_refused(self, seals: set[str], step: int) -> set[str]:
        """Which of these steps, that have not come about, never will: the journal has gone on since they were seen."""
        self._grabs = {seal: self._grabs.get(seal, step) for seal in seals}
        return {seal for seal, first in self._grabs.items() if first < step}

    def rest(self, wall: int) -> None:
        """All open tasks were seen: from now on look at the newest, and at all again after a while."""
        self._looks += 1
        recent = ObjectId(f"{max(0, wall // 1000 - _OVERLAP):08x}" + "0" * 16)
        self.newest = FIRST if self._looks % SWEEP == 0 else recent

    def found(self, step: int, *, nothing: bool) -> None:
        """A look behind this step is over."""
        now = self._clock.now()
        self._calm, self._ask_at = (step, now + CALM) if nothing else None, now + ASKED

    def is_calm(self, newest: int) -> bool:
        """Did a look find nothing a short while ago, and is no step newer than the one that it came behind?"""
        return self._calm is not None and newest <= self._calm[0] and self._clock.now() < self._calm[1]

    def is_asking_due(self) -> bool:
        """Is it time to ask for queues of strangers? If so the next time is a while later."""
        now = self._clock.now()
        due = now >= self._ask_at
        if due:
            self._ask_at = now + ASKED
        return due
