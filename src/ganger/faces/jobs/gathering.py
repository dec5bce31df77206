"""Results that come at nearly the same moment are stored in one step.

The store writes everything that waits at a moment in one transaction. When the workers have short jobs their results
come one by one, each just too late for the transaction of the one before, and the event loop and the store's thread
take the interpreter from each other at every statement. So the first result waits for the others that are due: those
of workers whose jobs have been short. It waits for two milliseconds at most, and not at all if no other is due.
"""

import asyncio
from typing import Final

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


class Gathering:
    """Holds results back until those that are due have come."""

    def __init__(self) -> None:
        self._due: set[Expected] = set()
        self._open: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def expect(self, worker: Expected) -> None:
        """It was given a job."""
        worker.since = asyncio.get_running_loop().time()
        if worker.is_quick:
            self._due.add(worker)

    def forget(self, worker: Expected) -> None:
        """Its result will not come, or is not waited for."""
        self._due.discard(worker)
        worker.since = None
        if not self._due:
            self._release()

    async def arrive(self, worker: Expected) -> None:
        """Its result is here: wait for the others."""
        loop = asyncio.get_running_loop()
        worker.is_quick = worker.since is not None and loop.time() - worker.since < SHORT
        worker.since = None
        self._due.discard(worker)
        if not self._due:
            return self._release()
        if self._open is None:
            self._open = loop.create_future()
            self._timer = loop.call_later(PATIENCE, self._give_up)
        return await asyncio.shield(self._open)

    def _give_up(self) -> None:
        self._due.clear()
        self._release()

    def _release(self) -> None:
        waiting, self._open = self._open, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waiting is not None:
            waiting.set_result(None)
