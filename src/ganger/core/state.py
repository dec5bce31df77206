"""The life of a task: every status, every move between two of them, and the fact that each move tells.

This is the only file that moves a status. What can go wrong with a task is nearly always two parties who believe in
different statuses: a holder that was paused past its lease and settles late, an operator who cancels while the task is
being claimed, an upkeep that takes a lease back from a worker that is about to finish. So nobody ever *sets* a status.
A party makes a `Move`, a value that says which rule it invokes and which lease it acts under, and the store applies it
if, at that instant and inside its transaction, the rule starts at the status that the task has and the fence is still
the task's. `judge` is that question, and every store asks it in these words.

Statuses are the integers of the Disbatch protocol. They order life: negative waits or ended without running to its end,
zero runs, positive has finished. A plugin may finish with any code above 2: it is a failure with that code. A negative
code that is not in this table was set by a stranger who does not want the task to be taken: no rule starts there.

Three laws follow from the table and are tested against it: no sequence of moves leaves it; no rule starts at a final
status, so a final status never changes; a move that a holder makes starts where a lease exists.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from ganger.core.event import Fact
from ganger.core.ids import Fence, TaskId


class Status(IntEnum):
    DELAYED = -8
    HELD = -7
    ORPHANED = -6
    CANCELLED = -5
    BLOCKED = -4
    TERMINATED = -3
    QUEUED = -2
    CLAIMED = -1
    RUNNING = 0
    SUCCEEDED = 1
    FAILED = 2

    def __str__(self) -> str:
        return self.name.lower()

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


UNREADABLE: Final = -(1 << 31)
"""The code of a task in whose place a stranger wrote none: nobody knows it, so nobody touches it."""

LEASED: Final = frozenset({Status.CLAIMED, Status.RUNNING})
WAITING: Final = frozenset({Status.DELAYED, Status.HELD, Status.BLOCKED, Status.QUEUED})
ENDED_UNFINISHED: Final = frozenset({Status.ORPHANED, Status.CANCELLED, Status.TERMINATED})
BORN: Final = frozenset({Status.QUEUED, Status.DELAYED, Status.BLOCKED})


def is_final(status: int) -> bool:
    return status > 0 or status in ENDED_UNFINISHED


def is_todo(status: int) -> bool:
    """What the Disbatch protocol counts as `todo`: every code that is not positive, also those that nobody knows."""
    return status <= 0


def status_of(code: int) -> Status | None:
    """The status that a stored code means; None for a code that a stranger set."""
    if code > Status.FAILED:
        return Status.FAILED
    return _BY_CODE.get(code)


_BY_CODE: Final = {int(status): status for status in Status}


class Counter(StrEnum):
    """What a task counts about itself. Attempts and crashes are apart: a dead node is not the task's fault."""

    ATTEMPTS = "attempts"
    CRASHES = "crashes"
    RESERVES = "reserves"
    TIMEOUTS = "timeouts"
    RELEASES = "releases"
    BURIES = "buries"
    KICKS = "kicks"


@dataclass(frozen=True, slots=True)
class Rule:
    """One arrow of the table: from any of `sources` to `target`, told as `fact`.

    `by_holder`: the move is made under a lease that must be valid. `adds`: the counters that grow by one.
    """

    name: str
    sources: frozenset[Status]
    target: Status
    fact: Fact
    by_holder: bool = False
    adds: tuple[Counter, ...] = ()

    @property
    def ends_lease(self) -> bool:
        return self.sources <= LEASED and self.target not in LEASED

    def ends_attempt(self, status: int) -> bool:
        """Has a task of this status made an attempt that ends now? What is given back before it began has not."""
        return self.ends_lease and (status == Status.RUNNING or self.fact is not Fact.RELEASED)


def _rule(
    name: str, sources: Iterable[Status], target: Status, fact: Fact, *adds: Counter, by_holder: bool = False
) -> Rule:
    return Rule(name, frozenset(sources), target, fact, by_holder, adds)


_S = Status
_TABLE: Final = (
    _rule("unblock", [_S.BLOCKED], _S.QUEUED, Fact.READIED),
    _rule("unblock_later", [_S.BLOCKED], _S.DELAYED, Fact.READIED),
    _rule("promote", [_S.DELAYED], _S.QUEUED, Fact.READIED),
    _rule("claim", [_S.QUEUED], _S.CLAIMED, Fact.CLAIMED, Counter.RESERVES),
    _rule("take", [_S.QUEUED], _S.RUNNING, Fact.CLAIMED, Counter.RESERVES),
    _rule("start", [_S.CLAIMED], _S.RUNNING, Fact.STARTED, by_holder=True),
    _rule("succeed", LEASED, _S.SUCCEEDED, Fact.SETTLED, Counter.ATTEMPTS, by_holder=True),
    _rule("fail", LEASED, _S.FAILED, Fact.SETTLED, Counter.ATTEMPTS, by_holder=True),
    _rule("terminate", LEASED, _S.TERMINATED, Fact.SETTLED, by_holder=True),
    _rule("retry", LEASED, _S.QUEUED, Fact.RETRIED, Counter.ATTEMPTS, by_holder=True),
    _rule("retry_later", LEASED, _S.DELAYED, Fact.RETRIED, Counter.ATTEMPTS, by_holder=True),
    _rule("release", LEASED, _S.QUEUED, Fact.RELEASED, Counter.RELEASES, by_holder=True),
    _rule("release_later", LEASED, _S.DELAYED, Fact.RELEASED, Counter.RELEASES, by_holder=True),
    _rule("bury", LEASED, _S.HELD, Fact.HELD, Counter.BURIES, by_holder=True),
    _rule("lose", LEASED, _S.QUEUED, Fact.LOST, Counter.TIMEOUTS),
    _rule("lose_to_orphan", LEASED, _S.ORPHANED, Fact.LOST, Counter.TIMEOUTS),
    _rule("lose_to_hold", LEASED, _S.HELD, Fact.LOST, Counter.TIMEOUTS),
    _rule("lose_killed", LEASED, _S.TERMINATED, Fact.LOST, Counter.TIMEOUTS),
    _rule("hold", [_S.DELAYED, _S.BLOCKED, _S.QUEUED], _S.HELD, Fact.HELD, Counter.BURIES),
    _rule("block", [_S.DELAYED, _S.QUEUED], _S.BLOCKED, Fact.EDITED),
    _rule("kick", [_S.HELD, _S.DELAYED], _S.QUEUED, Fact.KICKED, Counter.KICKS),
    _rule("kick_to_block", [_S.HELD], _S.BLOCKED, Fact.KICKED, Counter.KICKS),
    _rule("cancel", WAITING, _S.CANCELLED, Fact.CANCELLED),
    _rule("skip", [_S.BLOCKED, _S.HELD], _S.CANCELLED, Fact.CANCELLED),
    _rule("conclude", [_S.BLOCKED], _S.SUCCEEDED, Fact.SETTLED),
    _rule("conclude_failed", [_S.BLOCKED], _S.FAILED, Fact.SETTLED),
)

RULES: Final = {rule.name: rule for rule in _TABLE}
NO_FENCE: Final = Fence(0)


class Move(NamedTuple):
    """One move as a value: decided above the store, applied in it, and encodable for peers.

    `fence` names the lease that the mover acts under, or read (0: none is claimed). `target` is the rule's own, or a
    plugin's code above 2. What stays None stays as it is. `avoid` sends the task to another holder than the mover's
    for that many milliseconds. `crashed` counts a crash. `result` becomes the task's data `result`. `branch` is the way
    that a condition chose: its `then` edges hold if it is true, its `else` edges if not.
    """

    task: TaskId
    rule: str
    target: int
    due: int | None = None
    priority: int | None = None
    reason: str | None = None
    avoid: int = 0
    crashed: bool = False
    branch: bool = True
    fence: Fence = NO_FENCE
    result: bytes | None = None


WAY: Final = slice(1, 9)
"""The part of a move that says where it goes: moves that agree in it can be applied together."""

SAYING: Final = slice(1, 10)
"""All of a move but its task and its result."""


def move(task: TaskId, rule: str, fence: Fence = NO_FENCE, code: int | None = None) -> Move:
    """A move by the rule of that name. `code` is a failure's own number; a rule that ends otherwise has none."""
    target = RULES[rule].target
    if code is not None and target is Status.FAILED:
        return Move(task, rule, max(code, target), fence=fence)
    return Move(task, rule, target, fence=fence)


class Verdict(StrEnum):
    APPLIED = "applied"
    STALE = "stale"
    WRONG_STATUS = "wrong_status"
    GONE = "gone"


def judge(rule: Rule, status: int, fence: int, asked: int, lease_valid: bool) -> Verdict:
    """May this move be made now? Stale comes first: a holder that lost its lease learns that, and nothing else."""
    if (asked or rule.by_holder) and asked != fence:
        return Verdict.STALE
    if rule.by_holder and status in LEASED and not lease_valid:
        return Verdict.STALE
    if status not in rule.sources:
        return Verdict.STALE if rule.by_holder else Verdict.WRONG_STATUS
    return Verdict.APPLIED


def aim_kick(kick: Move, status: int, blocked: bool) -> Move:
    """A kicked task goes where it belongs at this instant: it may still wait for its parents, or not any more."""
    if status != Status.HELD or kick.rule not in ("kick", "kick_to_block"):
        return kick
    rule = RULES["kick_to_block" if blocked else "kick"]
    return kick._replace(rule=rule.name, target=rule.target)


def cut_spans(moves: Sequence[Move]) -> Iterator[range]:
    """Cut where a task comes a second time: its second move must see what the first one did."""
    start, seen = 0, set[int]()
    for index, each in enumerate(moves):
        if each.task in seen:
            yield range(start, index)
            start, seen = index, set[int]()
        seen.add(each.task)
    if moves:
        yield range(start, len(moves))
