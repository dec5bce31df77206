"""When a condition is asked, and what follows from the answer: a branch, a failure, or the next question.

A condition with `wait` false is an if: it is asked once, and chooses `then` or `else`. One that waits is asked until it
is true; when its deadline comes first, or when it can never become true any more, it fails, unless `otherwise` says
that its `else` children go on instead. A time that lies behind the deadline comes too late even if nobody looked in
between, so the outcome does not depend on who was awake when.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ganger.core.graph import Join, holds
from ganger.core.state import is_final

SHORTEST_EVERY: Final = 100
"""No condition is asked more often, in milliseconds."""


class Terms(NamedTuple):
    """How a condition is asked. `deadline` is a wall time."""

    wait: bool = True
    every: int = 1_000
    deadline: int | None = None
    otherwise: bool = False


class Answer(NamedTuple):
    """What was found. `true_at`: the wall time from which on it is true, if known. `fixed`: it cannot change."""

    truth: bool
    true_at: int | None = None
    fixed: bool = False


class Choose(NamedTuple):
    branch: bool


class Fail(NamedTuple):
    reason: str


class AskAgain(NamedTuple):
    at: int


Ruling = Choose | Fail | AskAgain


def rule(terms: Terms, answer: Answer, now: int) -> Ruling:
    """What follows from an answer that was found at this wall time."""
    if answer.truth and not _too_late(terms, answer):
        return Choose(True)
    if not terms.wait:
        return Choose(False)
    if terms.deadline is not None and now >= terms.deadline:
        return _give_up(terms, "it was not true before its deadline")
    if answer.fixed:
        return _give_up(terms, "it is false, and nothing that it asks for changes any more")
    return AskAgain(_next(terms, answer, now))


def _too_late(terms: Terms, answer: Answer) -> bool:
    return terms.deadline is not None and answer.true_at is not None and answer.true_at > terms.deadline


def _give_up(terms: Terms, reason: str) -> Choose | Fail:
    return Choose(False) if terms.otherwise else Fail(reason)


def _next(terms: Terms, answer: Answer, now: int) -> int:
    at = now + max(terms.every, SHORTEST_EVERY) if answer.true_at is None else answer.true_at
    return at if terms.deadline is None else min(at, terms.deadline)


class Elder(NamedTuple):
    """A parent, as far as the moment counts at which it let its child go."""

    on: str
    status: int
    branch: bool
    ended: int | None


def free_since(created: int, join: str, elders: Iterable[Elder]) -> int:
    """The wall time since which nothing above held the task back: its delay and its deadline count from there.

    With a join of `any` that is when the first edge held, else when the last parent ended.
    """
    ends = [
        elder.ended
        for elder in elders
        if elder.ended is not None and is_final(elder.status) and holds(elder.on, elder.status, elder.branch)
    ]
    if not ends:
        return created
    return max(created, min(ends) if join == Join.ANY else max(ends))
