"""From what a warm process says of a job, or from its death, to the end of an attempt.

| the function | outcome |
|---|---|
| returned | Succeed, with the result as JSON; without one for None |
| raised | Fail, code 2, with the traceback |
| cannot be found, was declared by no app | Fail, code 2, never tried again |
| was given what it cannot take, returned what is not JSON | Fail, code 2, never tried again |
| raised Retry | Fail, code 2, with its reason and its delay |
| raised Snooze | Release, due after the delay |
| raised Cancel | Killed |
| was stopped, even if it returned then | Killed |
| took too long, even if it returned in its grace | Fail, code 124 |
| was executed when its process died, or by what broke on it | Crashed |
| was executed when its process was ended for another's sake, or at the end of trust | Release |
| was not begun | Release |
"""

from typing import Final, assert_never

from ganger.core.outcome import Crashed, Fail, Killed, Outcome, Release, Succeed
from ganger.node.executor import Ended
from ganger.node.functions.child import Child, Errand, Stopped
from ganger.node.functions.messages import How, Result
from ganger.node.functions.note import Cause
from ganger.wire.cuts import add_cut

TIMED_OUT: Final = 124
SUCCEEDED: Final = Ended(Succeed())
"""The end of most."""

_RELEASED: Final = Ended(Release())
_NOT_BEGUN: Final = frozenset({How.DROPPED, How.DISTRUSTED})


def judge(result: Result, stopped: Stopped | None) -> Ended:
    """How the attempt ended, by the table above."""
    is_silent = not (result.said or result.spooled or result.cut)
    if result.how is How.SUCCEEDED and stopped is None and is_silent:
        return Ended(Succeed(result.body)) if result.body else SUCCEEDED
    outcome = _judge(result) if stopped is None or result.how in _NOT_BEGUN else end_stopped(stopped)
    data = add_cut(result.said, result.cut, next(iter(result.faults.values()), ""))
    return Ended(outcome, data, tuple(result.spooled))


def _judge(result: Result) -> Outcome:
    text = result.body.decode("utf-8", "replace")
    match result.how:
        case How.SUCCEEDED:
            return Succeed(result.body or None)
        case How.FAILED | How.STOPPED | How.HOPELESS:
            return Fail(reason=text, again=result.how is not How.HOPELESS)
        case How.RETRIED:
            delay, _, reason = text.partition(" ")
            return Fail(reason=reason, delay=int(delay))
        case How.RELEASED:
            return Release(int(text))
        case How.CANCELLED:
            return Killed(text)
        case How.DROPPED | How.BOUNCED | How.DISTRUSTED:
            return Release()
        case How.BROKEN:
            return Crashed(text)
        case _:
            assert_never(result.how)


def end_stopped(stopped: Stopped) -> Outcome:
    return Fail(TIMED_OUT, stopped.reason) if stopped.is_late else Killed(stopped.reason)


def judge_dead(child: Child, errand: Errand) -> Ended:
    """The end of an attempt that was executed when its process ended."""
    claimed = errand.assignment.claimed
    return Ended(_judge_dead(child, errand), child.printed(errand.masks), child.spooled(claimed.id, claimed.fence))


def _judge_dead(child: Child, errand: Errand) -> Outcome:
    if errand.stopped is not None:
        return end_stopped(errand.stopped)
    if child.is_killed or child.cause is not Cause.ITSELF:
        return Release()
    return Crashed(child.tell_end())


def release(delay: int = 0) -> Ended:
    return Ended(Release(delay)) if delay else _RELEASED
