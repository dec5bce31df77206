"""What a client of beanstalkd may ask for, as values. Times are seconds, as they are on the wire."""

from typing import Final, NamedTuple


class Put(NamedTuple):
    """A new job of the tube in use, whole."""

    priority: int
    delay: int
    ttr: int
    body: bytes


class PutBegun(NamedTuple):
    """A new job whose body is too large to be kept in memory: it follows in pieces, and then `PutEnded`."""

    priority: int
    delay: int
    ttr: int
    size: int


class PutPiece(NamedTuple):
    """Some of the body of the put that has begun, in order."""

    data: bytes


class PutEnded(NamedTuple):
    """The body of the put that has begun is over; `whole`: it had the size that was told, and nothing is wrong."""

    whole: bool


class Use(NamedTuple):
    tube: str


class Reserve(NamedTuple):
    """`timeout` is how long to wait at most, None as long as it takes. `asked`: the client named a time itself."""

    timeout: int | None = None
    asked: bool = False


class ReserveJob(NamedTuple):
    id: int


class Delete(NamedTuple):
    id: int


class Release(NamedTuple):
    id: int
    priority: int
    delay: int


class Bury(NamedTuple):
    id: int
    priority: int


class Touch(NamedTuple):
    id: int


class Watch(NamedTuple):
    tube: str


class Ignore(NamedTuple):
    tube: str


class Peek(NamedTuple):
    id: int


class PeekReady(NamedTuple):
    pass


class PeekDelayed(NamedTuple):
    pass


class PeekBuried(NamedTuple):
    pass


class Kick(NamedTuple):
    bound: int


class KickJob(NamedTuple):
    id: int


class StatsJob(NamedTuple):
    id: int


class StatsTube(NamedTuple):
    tube: str


class Stats(NamedTuple):
    pass


class ListTubes(NamedTuple):
    pass


class ListTubeUsed(NamedTuple):
    pass


class ListTubesWatched(NamedTuple):
    pass


class PauseTube(NamedTuple):
    tube: str
    delay: int


class Quit(NamedTuple):
    pass


class Refused(NamedTuple):
    """What came is no command, or one that cannot be obeyed: this is said to it. `over`: nothing more can be read.

    `put`: it was a put, which the original counts also when it refuses it.
    """

    reply: bytes
    over: bool = False
    put: bool = False


Command = (
    Put | Use | Reserve | ReserveJob | Delete | Release | Bury | Touch | Watch | Ignore | Peek | PeekReady | PeekDelayed
    | PeekBuried | Kick | KickJob | StatsJob | StatsTube | Stats | ListTubes | ListTubeUsed | ListTubesWatched
    | PauseTube | Quit
)  # fmt: skip
Part = PutBegun | PutPiece | PutEnded
Event = Command | Part | Refused

MOST_PRIORITY: Final = (1 << 32) - 1
MOST_ID: Final = (1 << 64) - 1
