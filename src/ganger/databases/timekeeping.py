"""What time it is at the server, and since when that can be believed.

Leases in a database end by the server's clock, which all nodes see alike. But it is a wall clock: an operator or a time
server may set it forward by an hour, and every lease would seem to have ended at once. So a process ends a lease only
if the server's clock says so *and* it has itself watched that clock go evenly, by its own boot clock, for at least the
length of the lease. If no jump was seen for as long as a lease lasts, then whoever gave that lease, and whenever, as
much time has truly passed since as the server's clock shows. A process that has just begun to watch ends nothing for a
while; others do, or it does later. A clock that is set back makes leases longer, which costs time and breaks nothing.

Whoever is handed a clock instead (a test) has the server's time from that.
"""

from typing import Final, NamedTuple, Protocol

from ganger.core.clock import Clock, Moment, Wall

TOLERANCE: Final = 1_000
"""Milliseconds by which a reading may be off: the way to the server takes time."""

_DRIFT: Final = 0.001
"""How much faster or slower a clock that nobody sets may go."""


class Reading(NamedTuple):
    """An instant at the server. `steady`: for so many milliseconds its clock has been seen to go evenly."""

    now: Moment
    wall: Wall
    steady: int


class Timekeeper(Protocol):
    @property
    def offset(self) -> int:
        """What is added to a moment of the store to have one of this machine's."""
        ...

    @property
    def wall_offset(self) -> int:
        """What is added to a time of day of the store to have one of this machine's; 0 if they are hardly different."""
        ...

    @property
    def boot(self) -> str:
        """The boot whose moments these are; the same for ever where they are a server's."""
        ...

    @property
    def handed(self) -> Reading | None:
        """The instant that a statement is to go by; None if that is the server's, to be read there."""
        ...

    def read(self, server: int) -> Reading:
        """The instant at which the server's clock showed that many milliseconds since 1970."""
        ...


class ServerTime:
    """The server's clock, watched by this machine's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: int | None = None
        self._anchor = 0
        self.offset = 0
        self.wall_offset = 0
        self.boot = "server"
        self.handed = None

    def read(self, server: int) -> Reading:
        here = int(self._clock.now())
        self.offset = here - server
        apart = int(self._clock.wall()) - server
        self.wall_offset = apart if abs(apart) > TOLERANCE else 0
        if self._since is None or self._has_jumped(here):
            self._since, self._anchor = here, self.offset
        return Reading(Moment(server), Wall(server), here - self._since)

    def _has_jumped(self, here: int) -> bool:
        watched = here - (self._since or 0)
        return abs(self.offset - self._anchor) > TOLERANCE + watched * _DRIFT


class HandedTime:
    """Time from a clock that is handed in, as if it were the server's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = int(clock.now())
        self.offset = 0
        self.wall_offset = 0
        self.boot = clock.boot_id()

    @property
    def handed(self) -> Reading:
        return self.read(0)

    def read(self, server: int) -> Reading:
        now = self._clock.now()
        return Reading(now, self._clock.wall(), now - self._since)
