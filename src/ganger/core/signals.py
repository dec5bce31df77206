"""What a task raises to say how its attempt is to end, where neither a result nor an error would say it."""

from typing import assert_never

from ganger.core.outcome import Fail, Killed, Outcome, Release, check_delay
from ganger.core.span import Span, to_ms


class Retry(Exception):
    """This attempt failed; try again after `delay`, or, without a delay, when the task's policy says.

    Either way it counts as a failed attempt, so that the policy can say that it was enough.
    """

    def __init__(self, delay: Span | None = None, reason: str = "it asked to be tried again") -> None:
        super().__init__(reason)
        self.delay = None if delay is None else _read(delay)
        self.reason = reason


class Snooze(Exception):
    """It is not time yet: give the task back for `delay`; nothing counts."""

    def __init__(self, delay: Span) -> None:
        self.delay = _read(delay)
        super().__init__(f"not before {self.delay} ms from now")


class Cancel(Exception):
    """Running it is of no use any more: it ends terminated, with the reason, and is not tried again."""

    def __init__(self, reason: str = "it cancelled itself") -> None:
        super().__init__(reason)
        self.reason = reason


Signal = Retry | Snooze | Cancel


def _read(delay: Span) -> int:
    ms = to_ms(delay, "delay")
    check_delay(ms)
    return ms


def outcome_of(signal: Signal) -> Outcome:
    """What a signal makes of the attempt that raised it."""
    match signal:
        case Retry():
            return Fail(reason=signal.reason, delay=signal.delay)
        case Snooze():
            return Release(signal.delay)
        case Cancel():
            return Killed(signal.reason)
        case _:
            assert_never(signal)
