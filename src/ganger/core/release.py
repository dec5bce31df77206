"""What becomes of those who wait, when edges of theirs are closed or the last member of a group has ended.

Decided here, once, and applied by every store: a store reads what a decision needs, and writes what it says.
"""

from enum import StrEnum
from typing import NamedTuple, Protocol

from ganger.core.graph import SKIPPED, Closed, Fate, Join, fate
from ganger.core.state import Status
from ganger.core.task import Kind


class Turn(StrEnum):
    """What follows for a child."""

    COUNT = "count"
    """It does not wait in a block: only the count is kept."""
    WAKE = "wake"
    """It still waits, or whoever judges or kicks it looks at the count: those who wait for its queue are woken."""
    UNBLOCK = "unblock"
    CONCLUDE = "conclude"
    """A group that no edge holds back any more: it ends if its members have."""
    LOSE = "lose"


class Waiter(Protocol):
    """A task that edges lead to, as far as they care."""

    @property
    def status(self) -> int: ...
    @property
    def waits(self) -> int: ...
    @property
    def any_join(self) -> bool | int: ...


class Turned(NamedTuple):
    """What follows, and for how many edges (of a group: and members) it waits from now on."""

    turn: Turn
    waits: int


def turn(child: Waiter, kind: str, closed: Closed) -> Turned:
    """What becomes of a child of that kind when these edges of it are closed."""
    waits = child.waits - closed.edges
    if child.status not in (Status.BLOCKED, Status.HELD):
        return Turned(Turn.COUNT, max(0, waits))
    join = Join.ANY if child.any_join else Join.ALL
    end = fate(join, waits, closed.held if child.any_join or closed.why is None else -1)
    if end == Fate.LOST:
        return Turned(Turn.LOSE, waits)
    if end == Fate.WAITS:
        return Turned(Turn.WAKE, waits)
    if kind == Kind.GROUP:
        return Turned(Turn.CONCLUDE, waits)
    if child.status == Status.BLOCKED and kind != Kind.CONDITION:
        # An `any` join is free with its first edge, whatever the others will do.
        return Turned(Turn.UNBLOCK, 0 if child.any_join else waits)
    return Turned(Turn.WAKE, 0)


def find_due(due: int | None, delay: int, wall: int) -> tuple[str, int | None]:
    """The rule by which a blocked task is let go, and when it is due: a delay counts from now."""
    when = due if due is not None else wall + delay if delay else None
    return ("unblock_later" if when is not None and when > wall else "unblock"), when


def conclude(failures: int) -> tuple[str, str | None]:
    """The rule by which a group ends of whose members so many did not succeed, and the reason."""
    if failures:
        return "conclude_failed", f"{failures} of its members did not succeed"
    return "conclude", None


def is_unhappy(status: int, reason: str | None) -> bool:
    """Does the group of a member that ended so fail with it? Not with one whose branch was not chosen."""
    return status != Status.SUCCEEDED and reason != SKIPPED
