"""The states of a worker's connection, and what each of them allows.

Protocol 1 has no names for jobs: a binary message is the result of the last job that the worker was sent. So a worker
has one job at a time, and a job that is taken back from a worker that is still there (it is stuck, somebody killed the
job, it says that it has none) ends the connection: only so can a late result never be taken for that of another job.

```
greeting -> admitting -> asked -> ready -> working -> asked -> ...
                |          |  ^     |
                v          v  |     v
             refused       busy   asked
```

A worker is given a job only when it is `ready`: it said so, and no status request is unanswered. Whoever drives this
machine tells it what came and what time it is, and does the steps that it returns, in their order.
"""

from enum import StrEnum
from typing import NamedTuple, assert_never

from ganger.wire.jobs.messages import Failed, Message, Progress, Registration, Status, WorkerStatus
from ganger.wire.websocket.frames import NOT_WANTED


class Phase(StrEnum):
    GREETING = "greeting"
    ADMITTING = "admitting"
    REFUSED = "refused"
    ASKED = "asked"
    BUSY = "busy"
    READY = "ready"
    WORKING = "working"


class Pace(NamedTuple):
    """How long things may take, in milliseconds.

    A worker registers within `grace`. One that has not been heard for `every` is asked for its status, an idle one
    after `fresh`; one that left two requests unanswered and was silent for `silence` is given up.
    """

    grace: int = 500
    every: int = 10_000
    silence: int = 30_000
    fresh: int = 60_000


class Admit(NamedTuple):
    """See whether this worker may come in, and tell the machine."""

    registration: Registration


class Ask(NamedTuple):
    """Send a status request."""


class Offer(NamedTuple):
    """The worker is ready: look for a job for it."""


class Withdraw(NamedTuple):
    """It is ready no more: stop looking."""


class Report(NamedTuple):
    """Tell how far its job is."""

    progress: Progress


class Give(NamedTuple):
    """Its job failed."""

    failed: Failed


class Accept(NamedTuple):
    """Take in its result, and tell the machine when it is stored."""


class Kick(NamedTuple):
    """Close the connection. A job that it had is counted as a crash."""

    code: int
    reason: str


Act = Admit | Ask | Offer | Withdraw | Report | Give | Accept
Step = Act | Kick


class Connection:
    """One connection of a worker."""

    def __init__(self, pace: Pace, now: int) -> None:
        self.phase = Phase.GREETING
        self._pace = pace
        self._opened = self._heard = self._asked_at = now
        self._unanswered = 0

    def hear(self, message: Message, now: int) -> list[Step]:
        """A text message has come."""
        self._heard = now
        if isinstance(message, Registration):
            return self._hear_registration(message)
        if self.phase is Phase.REFUSED:
            return []
        if self.phase is Phase.GREETING:
            return [_kick("a worker registers before it says anything else")]
        match message:
            case Status(status):
                return self._hear_status(status, now)
            case Progress():
                return [Report(message)] if self.phase is Phase.WORKING else []
            case Failed():
                return self._hear_failed(message)
            case _:
                assert_never(message)

    def hear_binary(self, now: int) -> list[Step]:
        """A binary message begins."""
        self._heard = now
        if self.phase is Phase.REFUSED:
            return []
        if self.phase is Phase.GREETING:
            return [_kick("a worker registers before it says anything else")]
        if self.phase is not Phase.WORKING:
            return [_kick("this is a result, and no job is open: one result for each job")]
        return [Accept()]

    def hear_more(self, now: int) -> None:
        """A message goes on."""
        self._heard = now

    def admit(self, now: int) -> list[Step]:
        """The worker may come in."""
        return self._ask(now)

    def refuse(self) -> None:
        """The worker may not come in. It is told at the end of the grace: who guesses tokens learns slowly."""
        self.phase = Phase.REFUSED

    def send_job(self, now: int) -> bool:
        """May it be sent a job now? If so it has one from now on."""
        if self.phase is not Phase.READY:
            return False
        self.phase, self._heard = Phase.WORKING, now
        return True

    def take_next(self, now: int) -> None:
        """Its job is settled; it was asked, says that it is ready, and is sent the next one: all of that as one."""
        self.phase, self._unanswered = Phase.WORKING, 0
        self._heard = self._asked_at = now

    def end_job(self, now: int) -> list[Step]:
        """Its job is settled. Whether it takes the next one, it is asked."""
        return self._ask(now)

    def tick(self, now: int) -> list[Step]:
        """Time has passed."""
        if self.phase in (Phase.GREETING, Phase.REFUSED):
            return self._end_grace() if now - self._opened >= self._pace.grace else []
        if self.phase is Phase.ADMITTING:
            return []
        silent = now - self._heard
        if self._unanswered >= 2 and silent >= self._pace.silence:
            return [_kick(f"no answer to {self._unanswered} status requests in {silent / 1000:.0f} s")]
        wait = self._pace.fresh if self.phase is Phase.READY else self._pace.every
        if silent < wait or now - self._asked_at < self._pace.every:
            return []
        if self.phase is Phase.READY:
            return [Withdraw(), *self._ask(now)]
        return self._request(now)

    def _end_grace(self) -> list[Step]:
        if self.phase is Phase.REFUSED:
            return [_kick("the token is not one of a worker for these jobs")]
        return [_kick(f"no registration within {self._pace.grace} ms")]

    def _hear_registration(self, message: Registration) -> list[Step]:
        if self.phase is not Phase.GREETING:
            return [] if self.phase is Phase.REFUSED else [_kick("a worker registers once")]
        self.phase = Phase.ADMITTING
        return [Admit(message)]

    def _hear_status(self, status: WorkerStatus, now: int) -> list[Step]:
        asked, self._unanswered = self._unanswered > 0, 0
        is_ready = status is WorkerStatus.READY
        if self.phase is Phase.WORKING:
            # One that nobody asked for may have been on its way before the job was.
            return [_kick("it says that it is ready, and sent no result")] if is_ready and asked else []
        was_ready = self.phase is Phase.READY
        self.phase, self._asked_at = Phase.READY if is_ready else Phase.BUSY, now
        if is_ready:
            return [] if was_ready else [Offer()]
        return [Withdraw()] if was_ready else []

    def _hear_failed(self, message: Failed) -> list[Step]:
        return [Give(message)] if self.phase is Phase.WORKING else [_kick("a job failed, and no job is open")]

    def _ask(self, now: int) -> list[Step]:
        self.phase, self._unanswered = Phase.ASKED, 0
        return self._request(now)

    def _request(self, now: int) -> list[Step]:
        self._unanswered += 1
        self._asked_at = now
        return [Ask()]


def _kick(reason: str) -> Kick:
    return Kick(NOT_WANTED, reason)
