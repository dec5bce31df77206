"""Time and randomness as contracts: whoever needs them is handed them."""

from typing import NewType, Protocol

Moment = NewType("Moment", int)
"""Milliseconds of the boot clock. Suspended time counts, and no jump of the wall clock moves it: leases live on it."""

Wall = NewType("Wall", int)
"""Milliseconds since 1970 by the wall clock: what people read, and what `due` means."""


class Clock(Protocol):
    """Two clocks that must not be mixed, and the name of the boot that gives the first one its meaning."""

    def now(self) -> Moment: ...

    def wall(self) -> Wall: ...

    def boot_id(self) -> str: ...


class Entropy(Protocol):
    """Where randomness comes from: the system in production, a seed in a test."""

    def token(self, size: int) -> bytes: ...

    def uniform(self) -> float:
        """A number in [0, 1)."""
        ...
