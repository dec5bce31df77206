"""Results that come at nearly the same moment are stored in one step.

The store writes everything that waits at a moment in one transaction. When the workers have short jobs their results
come one by one, each just too late for the transaction of the one before, and the event loop and the store's thread
take the interpreter from each other at every statement. So the first result waits for the others that are due: those
of workers whose jobs have been short. It waits for two milliseconds at most, and not at all if no other is due.

A worker is due from when its last result went to the store, if it got another job with that. Were it due only from when
it is given the job, two halves that once fell apart would never meet again: each would come while the other is stored.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Brought = TypeVar("Brought")

PATIENCE: Final = 0.002
"""Seconds for which a result waits at most."""

SHORT: Final = 0.004
"""A job that takes longer is not waited for, and neither is the next one of its worker."""


class Expected:
    """A worker whose result may be due. `since` is when it was given its job, in the time of the loop."""

    __slots__ = ("is_quick", "since")

    def __init__(self) -> None:
        self.since: float | None = None
        self.is_quick = False


class Gathering(Generic[Brought]):
    """Holds results back until those that are due have come, and sends them on together."""

    def __init__(self, send: Callable[[list[Brought]], None]) -> None:
        self._send = send
        self._due: set[Expected] = set()
        self._waiting: list[tuple[Brought, Expected]] = []
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, worker: Expected) -> None:
        """It was given a job."""
        worker.since = asyncio.get_running_loop().time()
        self._expect(worker)

    def _expect(self, worker: Expected) -> None:
        if worker.is_quick:
            self._due.add(worker)

    def forget(self, worker: Expected) -> None:
        """It has no job, or its result will not come, or is not waited for."""
        self._due.discard(worker)
        worker.since, worker.is_quick = None, False
        if not self._due:
            self._release()

    def bring(self, worker: Expected, result: Brought) -> None:
        """Its result is here, and goes on with those of the others that are due."""
        loop = asyncio.get_running_loop()
        worker.is_quick = worker.since is not None and loop.time() - worker.since < SHORT
        worker.since = None
        self._due.discard(worker)
        self._waiting.append((result, worker))
        if not self._due:
            self._release()
        elif self._timer is None:
            self._timer = loop.call_later(PATIENCE, self._give_up)

    def _give_up(self) -> None:
        """They do not keep step: nobody is waited for until he is given a job."""
        self._due.clear()
        self._release()
        self._due.clear()

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _, worker in waiting:
            self._expect(worker)
        if waiting:
            self._send([result for result, _ in waiting])
