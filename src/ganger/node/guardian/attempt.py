"""One attempt in the guardian's hands: what was ordered, what runs, and what is due when."""

from typing import Final

import msgspec

from ganger.node.guardian.messages import End, Key, Start, Started, Usage
from ganger.node.guardian.taps import Pipes
from ganger.node.isolation import Cell

NEVER: Final = 1 << 62
_FIRST_PAUSE: Final = 10
_LONGEST_PAUSE: Final = 250


class Attempt:
    """It runs; it is asked to end (TERM) or forced to (KILL); its own process ends; nothing of it is left.

    `doom` is why we end it: the first reason that came. `again` is when to look once more for the rest of a tree that
    is dying, and `forced_at` since when it has been made to.
    """

    __slots__ = (
        "again", "asked", "cell", "code", "deadline", "doom", "ended", "forced_at", "fresh_until", "key", "kill_at",
        "order", "pause", "pid", "pidfd", "pipes", "serial", "signal", "stuck", "trusted", "usage", "watched",
    )  # fmt: skip

    def __init__(self, order: Start, serial: int, now: int, pipes: Pipes, cell: Cell | None) -> None:
        # What only the start needs can be large, and there may be many of us.
        self.order = msgspec.structs.replace(order, argv=[], environment={}, stdin=None, script=None, masks=[])
        self.key: Key = order.key
        self.serial = serial
        self.pipes = pipes
        self.cell = cell
        self.pid = 0
        self.pidfd = -1
        self.trusted = order.trusted_until
        self.deadline = NEVER if order.timeout is None else now + order.timeout
        self.kill_at = NEVER
        self.again = NEVER
        self.pause = _FIRST_PAUSE
        self.asked = False
        self.forced_at = NEVER
        self.ended = False
        self.fresh_until = now
        self.stuck = False
        self.watched = False
        self.doom: tuple[str, str] | None = None
        self.code: int | None = None
        self.signal: int | None = None
        self.usage = Usage()

    @property
    def forced(self) -> bool:
        return self.forced_at != NEVER

    @property
    def due(self) -> int:
        """When something must be done about it, if nothing happens before."""
        if self.forced:
            return self.again
        deadline = NEVER if self.asked else self.deadline
        return min(deadline, self.trusted, self.kill_at, self.again)

    def blame(self, why: str, text: str) -> None:
        """Note why we end it. What has ended by itself, or is being ended for another reason, stays as it is."""
        if self.doom is None and not self.ended:
            self.doom = why, text

    def look_later(self, now: int) -> None:
        self.again = now + self.pause
        self.pause = min(self.pause * 2, _LONGEST_PAUSE)

    def started(self) -> Started:
        return Started(*self.key, pid=self.pid, serial=self.serial)

    def end(self, streams: dict[str, tuple[int, int]], faults: dict[str, str]) -> End:
        why, text = self.doom or ("exit", "")
        return End(*self.key, why, text, self.code, self.signal, self.usage, streams, self.serial, faults)
