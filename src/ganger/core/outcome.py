"""What an attempt came to, and the one move that follows from it.

A holder says how its attempt ended: an `Outcome`. An upkeep finds that a holder is no more. Both are turned here, by
the task's retry policy and by nothing else, into a `Move`; the store then applies it or refuses it.

Attempts and crashes are counted apart. An attempt that ran to a failure uses up one attempt; a command that a signal
ended is such a one. An attempt whose node, guardian or warm process died under it uses up none, but counts a crash,
because a task that kills whoever takes it must not go round for ever: after `max_crashes` it is held, with the reason,
until somebody looks. An attempt that had not started, or whose holder left in order, counts nothing.
"""

from typing import Final, NamedTuple, assert_never

from ganger.core.errors import BadNumber
from ganger.core.ids import Fence, TaskId
from ganger.core.queue import OnLost
from ganger.core.retry import LONGEST_DELAY, Again, Enough, Retry, crashed_enough, decide, from_text
from ganger.core.state import RULES, Move, Status, move
from ganger.core.task import LAST_PRIORITY, Claimed

AVOID: Final = 30_000
"""For so many milliseconds a task that failed goes to another holder, if there is one."""

LARGEST_CODE: Final = (1 << 31) - 1

_SUCCEEDED: Final = RULES["succeed"].target


class Succeed(NamedTuple):
    result: bytes | None = None


class Fail(NamedTuple):
    """The attempt failed with a code of 2 or more. `again` False: trying again is useless, whatever the policy says.

    `delay` (ms) takes the place of the policy's backoff; whether there is another attempt is the policy's word alone.
    """

    code: int = int(Status.FAILED)
    reason: str | None = None
    again: bool = True
    delay: int | None = None


class Release(NamedTuple):
    """The holder gives the task back untried: nothing is counted against it."""

    delay: int = 0
    priority: int | None = None


class Hold(NamedTuple):
    """The task is set aside until somebody kicks it."""

    reason: str | None = None


class Killed(NamedTuple):
    """The attempt was killed because somebody asked for it."""

    reason: str | None = None


class Crashed(NamedTuple):
    """What carried the attempt died under it: its node, its guardian, or the process that executes functions."""

    reason: str | None = None


Outcome = Succeed | Fail | Release | Hold | Killed | Crashed


def settle(claimed: Claimed, outcome: Outcome, wall: int, luck: float, on_lost: str = OnLost.RETRY) -> Move:
    """The move that follows from an outcome. `luck` in [0, 1) spreads retries; `on_lost` counts for a crash alone."""
    if isinstance(outcome, Succeed):
        # The one hot path: a tuple of all fields costs a third of a call with defaults.
        fields = (claimed.id, "succeed", _SUCCEEDED, None, None, None, 0, False, True, claimed.fence, outcome.result)
        return tuple.__new__(Move, fields)
    match outcome:
        case Fail():
            return _fail(claimed, outcome, wall, luck)
        case Release():
            return _release(claimed, outcome, wall)
        case Hold(reason):
            return _under_lease(claimed, "bury")._replace(reason=reason)
        case Killed(reason):
            return _under_lease(claimed, "terminate")._replace(reason=reason)
        case Crashed(reason):
            return _crash(claimed, reason or "its process died", on_lost)
        case _:
            assert_never(outcome)


def _under_lease(claimed: Claimed, rule: str, code: int | None = None) -> Move:
    return move(claimed.id, rule, claimed.fence, code)


def _fail(claimed: Claimed, failure: Fail, wall: int, luck: float) -> Move:
    check_code(failure.code)
    if failure.delay is not None:
        check_delay(failure.delay)
    policy = from_text(claimed.retry)
    next_step = decide(policy, claimed.attempts + 1, failure.code, luck)
    if failure.again and isinstance(next_step, Again):
        delay = next_step.delay if failure.delay is None else failure.delay
        return _retry(claimed, failure, policy, wall, delay)
    reason = _tell_spent(failure, next_step)
    if policy.hold_when_spent:
        return _under_lease(claimed, "bury")._replace(reason=reason or f"failed with code {failure.code}")
    return _under_lease(claimed, "fail", failure.code)._replace(reason=reason)


def _tell_spent(failure: Fail, next_step: Again | Enough) -> str | None:
    """The reason; whoever asked for another attempt is told why there is none."""
    if failure.delay is None or not isinstance(next_step, Enough):
        return failure.reason
    return f"{failure.reason or 'it asked to be tried again'} ({next_step.why})"


def _retry(claimed: Claimed, failure: Fail, policy: Retry, wall: int, delay: int) -> Move:
    sunk = min(claimed.priority + policy.sink, LAST_PRIORITY)
    return _back(claimed, "retry", wall, delay)._replace(priority=sunk, reason=failure.reason, avoid=AVOID)


def _release(claimed: Claimed, released: Release, wall: int) -> Move:
    check_delay(released.delay)
    if released.priority is not None:
        check_priority(released.priority)
    return _back(claimed, "release", wall, released.delay)._replace(priority=released.priority)


def _back(claimed: Claimed, rule: str, wall: int, delay: int) -> Move:
    if not delay:
        return _under_lease(claimed, rule)
    return _under_lease(claimed, f"{rule}_later")._replace(due=wall + delay)


def _crash(claimed: Claimed, reason: str, on_lost: str) -> Move:
    loss = _Loss(reason, on_lost, claimed.crashes, claimed.retry, blamed=True)
    return _lose(claimed.id, claimed.fence, loss)


def after_loss(
    task: TaskId,
    fence: Fence,
    *,
    started: bool,
    left: bool,
    crashes: int,
    retry: str,
    on_lost: str,
    kill: bool,
    holder: str,
) -> Move:
    """The move that takes a lease back which has ended by itself.

    A task that somebody asked to kill is over. Only an attempt that had started, and whose holder did not leave in
    order, is blamed on the task.
    """
    if kill:
        return move(task, "lose_killed", fence)._replace(reason=f"a kill was asked for, and {holder} is gone")
    reason = f"{holder} left" if left else f"{holder} was lost" if started else f"{holder} was lost before it started"
    return _lose(task, fence, _Loss(reason, on_lost, crashes, retry, blamed=started and not left))


class _Loss(NamedTuple):
    reason: str
    on_lost: str
    crashes: int
    retry: str
    blamed: bool


def _lose(task: TaskId, fence: Fence, loss: _Loss) -> Move:
    if loss.on_lost == OnLost.ORPHAN:
        return move(task, "lose_to_orphan", fence)._replace(reason=loss.reason, crashed=loss.blamed)
    crashes = loss.crashes + 1
    if loss.blamed and crashed_enough(from_text(loss.retry), crashes):
        why = f"crashed {crashes} times, the last time because {loss.reason}; look at it and kick it"
        return move(task, "lose_to_hold", fence)._replace(reason=why, crashed=True)
    avoid = AVOID if loss.blamed else 0
    return move(task, "lose", fence)._replace(reason=loss.reason, crashed=loss.blamed, avoid=avoid)


def check_code(code: int) -> None:
    if not Status.FAILED <= code <= LARGEST_CODE:
        raise BadNumber(f"the code of a failure is {code}; give {int(Status.FAILED)} to {LARGEST_CODE}", field="code")


def check_delay(delay: int, field: str = "delay") -> None:
    if not 0 <= delay <= LONGEST_DELAY:
        raise BadNumber(f"{field} is {delay} ms; give 0 to {LONGEST_DELAY}", field=field)


def check_priority(priority: int) -> None:
    if not 0 <= priority <= LAST_PRIORITY:
        raise BadNumber(
            f"priority is {priority}; give 0 (first) to {LAST_PRIORITY} (last), unsigned 32 bits", field="priority"
        )
