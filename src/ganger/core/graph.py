"""What waits for what: edges, joins, and what a parent's end means for its children.

A child waits for its parents. An edge says what the parent must do: succeed, finish in any way, fail, or (for a
condition) choose that branch. When the parent is final, the edge *holds* or holds *never*. A join of `all` is ready
when every edge holds and lost with the first that never will; a join of `any` is ready with the first that holds and
lost when none can. A lost child is cancelled, and that is its own end for its own children.

The decision about a child is made from counts (how many edges are still open, how many of those just closed hold), so
that several parents settled in one transaction, or a join of a million, cost one decision per child and not one read
of all its parents.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Final, NamedTuple, Protocol

from ganger.core.errors import CycleFound, WrongStatus
from ganger.core.state import Status

SKIPPED = "skipped"
"""The reason of a task that was cancelled because its branch was not chosen, or because its parent was skipped."""


class On(StrEnum):
    """What an edge asks of its parent."""

    SUCCESS = "success"
    FINISHED = "finished"
    FAILED = "failed"
    THEN = "then"
    ELSE = "else"


BRANCHES: Final = frozenset({On.THEN, On.ELSE})
"""What only a condition can be asked for."""


class Join(StrEnum):
    ALL = "all"
    ANY = "any"


class Edge(NamedTuple):
    """A parent and what is asked of it. In a submission a negative parent -n is its n-th task."""

    parent: int
    on: str = On.SUCCESS


class Fate(StrEnum):
    WAITS = "waits"
    READY = "ready"
    LOST = "lost"


_SHOWN = 20
_UNHAPPY = frozenset({Status.TERMINATED, Status.ORPHANED})


def holds(on: str, status: int, branch: bool = True) -> bool:
    """Does the edge hold, now that its parent is final?"""
    if on == On.FINISHED:
        return True
    if on == On.FAILED:
        return status >= Status.FAILED or status in _UNHAPPY
    if on == On.ELSE:
        return status == Status.SUCCEEDED and not branch
    return status == Status.SUCCEEDED and (branch or on == On.SUCCESS)


class Ending(Protocol):
    """A task that has ended, as far as an edge cares."""

    @property
    def id(self) -> int: ...
    @property
    def status(self) -> int: ...
    @property
    def branch(self) -> bool: ...
    @property
    def reason(self) -> str | None: ...


class Closed:
    """The edges of one child that are decided together: how many, how many of them hold, and why one never will."""

    __slots__ = ("edges", "held", "why")

    def __init__(self) -> None:
        self.edges = 0
        self.held = 0
        self.why: str | None = None

    def add(self, parent: Ending, on: str) -> None:
        self.edges += 1
        if holds(on, parent.status, parent.branch):
            self.held += 1
        else:
            self.why = self.why or lost_reason(on, parent.id, parent.status, parent.reason)


def fate(join: str, open_edges: int, held: int) -> Fate:
    """What becomes of a child with `open_edges` edges still undecided, when `held` of those just closed hold.

    For `all`, pass held = -1 if any of the closed edges never holds.
    """
    if join == Join.ANY:
        if held > 0:
            return Fate.READY
        return Fate.WAITS if open_edges else Fate.LOST
    if held < 0:
        return Fate.LOST
    return Fate.WAITS if open_edges else Fate.READY


def lost_reason(on: str, parent: int, status: int, reason: str | None) -> str:
    """Why a child was cancelled: skipped passes on, and so does the cause, however far above it lies."""
    unchosen = on in BRANCHES and status == Status.SUCCEEDED
    if unchosen or reason == SKIPPED:
        return SKIPPED
    if status == Status.CANCELLED and reason and reason.startswith(_CAUSE) and _PASSED_ON in reason:
        return f"{reason.rpartition(_PASSED_ON)[0]}{_PASSED_ON} its parent {parent} was cancelled"
    word = _WORDS.get(status, f"failed with code {status}")
    return f"{_CAUSE}{parent} {word}{_PASSED_ON} its edge asks for {on}"


_CAUSE: Final = "task "
_PASSED_ON: Final = ";"
_WORDS: Final = {
    int(Status.SUCCEEDED): "succeeded",
    int(Status.CANCELLED): "was cancelled",
    int(Status.TERMINATED): "was killed",
    int(Status.ORPHANED): "was lost",
    int(Status.FAILED): "failed",
}


def refuse_leased(leased: Sequence[tuple[int, int]]) -> None:
    """What somebody has in hand is not removed, nor is what it hangs below. `leased` are ids with their statuses."""
    if not leased:
        return
    ids = sorted(task for task, _ in leased)
    named = f"task {ids[0]} is" if len(ids) == 1 else f"tasks {', '.join(map(str, ids[:_SHOWN]))} are"
    sentence = f"{named} running: kill first what is to be removed"
    raise WrongStatus(sentence, task=ids[0], tasks=ids[:_SHOWN], status=dict(leased)[ids[0]])


def order(parents: Sequence[Iterable[int]]) -> None:
    """Refuse a cycle among the tasks of one submission: `parents[i]` are the indexes that task i waits for."""
    if all(parent < index for index, above in enumerate(parents) for parent in above):
        return
    try:
        TopologicalSorter({index: list(above) for index, above in enumerate(parents)}).prepare()
    except CycleError as error:
        ring = [int(index) for index in error.args[1]]
        shown = " -> ".join(map(str, ring[:_SHOWN])) + (" -> ..." if len(ring) > _SHOWN else "")
        raise CycleFound(f"these tasks of the submission wait for each other: {shown}", tasks=ring) from None
