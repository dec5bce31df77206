"""What Ganger's own clients and nodes send: the engine's words as they are, and what those lack to travel.

Values of the core travel as arrays of their fields, in order, so both sides must mean the same fields. `PROTOCOL` says
which: it grows whenever one of them changes, and a side that speaks another number is refused with a sentence, not
misunderstood.

Moments are of the boot clock of the server's machine. Whoever is told one is told `now` too, and reckons from there.
"""

from typing import Annotated, Final, Literal, assert_never

import msgspec

from ganger.core.audit import Act
from ganger.core.node import Vitals
from ganger.core.outcome import Crashed, Fail, Hold, Killed, Outcome, Release, Succeed
from ganger.core.task import Claimed, NewTask

PROTOCOL: Final = "3"
PROTOCOL_HEADER: Final = "ganger-protocol"
NODE_HEADER: Final = "ganger-node"
"""With it a node names its own secret: that of its registration."""

SIZE_HEADER: Final = "ganger-size"
ENDED_HEADER: Final = "ganger-ended"
TOPICS: Final = ("events", "nodes", "queues", "followed")
"""What can be listened for from afar."""

LONGEST_WAIT: Final = 25.0
"""Seconds after which a request that waits is answered all the same: whoever still wants to know asks again."""

LARGEST_PIECE: Final = 4 << 20
MOST_IDS: Final = 1_000
"""So many ids are in one address."""

Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""A number that the engine may have given."""

PARAMETERS: Final[dict[str, str]] = {
    "ask": "The question, a JSON text.",
    "fence": "The fence of the attempt.",
    "name": "The key of the value.",
    "task": "The id of the task.",
    "wait": "For so many seconds the answer may wait until there is something to tell.",
    "{id}": "The number of the node's registration.",
}
"""What each parameter means."""


class TasksAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ids: list[Number]


class LookAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task, with at most so many relatives and attempts."""

    task: Number
    most: Number = 100


class ValueAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a named value, or with the key `out:<stream>` of output, of that attempt or the newest with some."""

    task: Number
    key: str
    start: Number = 0
    most: Number = LARGEST_PIECE
    fence: Number | None = None


class OutputAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Output as it comes, of these streams."""

    task: Number
    streams: list[str]
    start: Number = 0
    fence: Number | None = None


class EventsAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after: Number
    most: Number = 1_000


class WaitAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Until all have ended; with `until_held` also until held ones keep all the rest."""

    ids: list[Number]
    until_held: bool = False


class BellAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How often each topic had rung when it was asked last."""

    seen: dict[str, int] = {}


class ReadyAsk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    node: str | None = None


class SubmitIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New tasks, all or none, and the values that they are born with: the index of the task, the key, the content."""

    tasks: list[NewTask]
    data: list[tuple[int, str, bytes]] = []
    act: Act | None = None


Action = Literal["hold", "kick", "cancel", "kill", "remove", "kick_queue"]


class ActIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator does to tasks. `descendants` and `kill` are of `remove`, `queue` and `most` of `kick_queue`."""

    action: Action
    ids: list[Number] = []
    reason: str | None = None
    descendants: bool = False
    kill: bool = False
    queue: Number = 0
    most: Number = 1


class RetryIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    task: Number


class DatumIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    task: Number
    key: str
    value: bytes
    only_if_unset: bool = False


class ProgressIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far the attempt is that speaks."""

    percent: float | None
    info: str | None = None


class DrainIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Have a node take nothing more, or take tasks again."""

    node: Number
    resume: bool = False


class BeatIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lease: Number | None = None
    vitals: Vitals | None = None


class OutcomeIn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How an attempt ended. `result` is of a success, `code`, `again` and `delay` are of a failure."""

    kind: Literal["succeed", "fail", "release", "hold", "killed", "crashed"]
    result: bytes | None = None
    reason: str | None = None
    code: int = 2
    again: bool = True
    delay: int | None = None
    priority: int | None = None


class SettleIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The attempt of this task with this fence has ended."""

    task: Number
    fence: Number
    outcome: OutcomeIn


class ClaimIn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    queues: list[Number] = []
    most: Number = 1
    ids: list[Number] = []
    start: bool = False
    length: Number = 60_000


class TakeIn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Settle these, each by itself, and claim the next, in one step."""

    settle: list[SettleIn] = []
    claim: ClaimIn | None = None


class TakenOut(msgspec.Struct, frozen=True):
    """New work, with a token for each that lets it speak for its family, and the refused by index and verdict."""

    refused: list[tuple[int, str]]
    claimed: list[Claimed]
    tokens: list[str]
    next_due: int | None
    waiting: bool
    now: int


class LeasesIn(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Leases as task and fence; `length` is how much more time is wanted."""

    leases: list[tuple[Number, Number]]
    length: Number | None = None


class RenewedOut(msgspec.Struct, frozen=True):
    """The refused by index and verdict, and how many milliseconds each lease has left (None: no end of its own)."""

    refused: list[tuple[int, str]]
    left: list[int | None]


def write_outcome(outcome: Outcome) -> OutcomeIn:
    match outcome:
        case Succeed(result):
            return OutcomeIn("succeed", result)
        case Fail(code, reason, again, delay):
            return OutcomeIn("fail", reason=reason, code=code, again=again, delay=delay)
        case Release(delay, priority):
            return OutcomeIn("release", delay=delay, priority=priority)
        case Hold(reason):
            return OutcomeIn("hold", reason=reason)
        case Killed(reason):
            return OutcomeIn("killed", reason=reason)
        case Crashed(reason):
            return OutcomeIn("crashed", reason=reason)
        case _:
            assert_never(outcome)


def read_outcome(said: OutcomeIn) -> Outcome:
    match said.kind:
        case "succeed":
            return Succeed(said.result)
        case "fail":
            return Fail(said.code, said.reason, said.again, said.delay)
        case "release":
            return Release(said.delay or 0, said.priority)
        case "hold":
            return Hold(said.reason)
        case "killed":
            return Killed(said.reason)
        case "crashed":
            return Crashed(said.reason)
        case _:
            assert_never(said.kind)
