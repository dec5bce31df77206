"""What a task raises to say how its attempt is to end, where neither a result nor an error would say it."""

from typing import assert_never

from ganger.core.outcome import Fail, Killed, Outcome, Release, check_delay


class Retry(Exception):
    """Try again: after `delay` ms whatever the policy says, or, without a delay, as the task's policy says.

    Without a delay the attempt counts as a failed one, so that the policy can say that it was enough.
    """

    def __init__(self, delay: int | None = None, reason: str = "it asked to be tried again") -> None:
        super().__init__(reason)
        if delay is not None:
            check_delay(delay)
        self.delay = delay
        self.reason = reason


class Snooze(Exception):
    """It is not time yet: give the task back for `delay` ms; nothing counts."""

    def __init__(self, delay: int) -> None:
        super().__init__(f"not before {delay} ms from now")
        check_delay(delay)
        self.delay = delay


class Cancel(Exception):
    """Running it is of no use any more: it ends terminated, with the reason, and is not tried again."""

    def __init__(self, reason: str = "it cancelled itself") -> None:
        super().__init__(reason)
        self.reason = reason


Signal = Retry | Snooze | Cancel


def outcome_of(signal: Signal) -> Outcome:
    """What a signal makes of the attempt that raised it."""
    match signal:
        case Retry():
            return Fail(reason=signal.reason) if signal.delay is None else Release(signal.delay)
        case Snooze():
            return Release(signal.delay)
        case Cancel():
            return Killed(signal.reason)
        case _:
            assert_never(signal)
