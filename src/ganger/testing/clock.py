"""A clock that moves when told, and randomness that repeats from a seed."""

import random

from ganger.core.clock import Moment, Wall


class FakeClock:
    """A `Clock` in the hands of a test: time passes, the wall clock jumps, the machine reboots, each on its own."""

    def __init__(self, *, now: int = 1_000_000, wall: int = 1_700_000_000_000) -> None:
        self._now = now
        self._wall = wall
        self._boots = 1

    def now(self) -> Moment:
        return Moment(self._now)

    def wall(self) -> Wall:
        return Wall(self._wall)

    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    def advance(self, milliseconds: int) -> None:
        """Let time pass on both clocks."""
        if milliseconds < 0:
            raise ValueError(f"time cannot pass backwards ({milliseconds} ms); jump_wall() moves the wall clock")
        self._now += milliseconds
        self._wall += milliseconds

    def jump_wall(self, milliseconds: int) -> None:
        """Move the wall clock alone, either way, as an operator or a time server does."""
        self._wall += milliseconds

    def reboot(self, *, down: int = 0) -> None:
        """Start another boot after `down` milliseconds: the boot clock begins again, the wall clock goes on."""
        self._boots += 1
        self._now = 0
        self._wall += down


class SeededEntropy:
    """An `Entropy` that draws the same tokens and numbers for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = random.Random(seed)

    def token(self, size: int) -> bytes:
        return self._rng.randbytes(size)

    def uniform(self) -> float:
        return self._rng.random()
