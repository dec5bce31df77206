"""A leader among many: the holder of a lock, whose duties stop before its lease ends.

A candidate waits for the lock. When it has it, it runs its duty as a task that is cancelled at the moment at which the
lock can not be trusted any more, which is a margin before anybody else may take it. A duty that does not let the
cancellation through, or that has handed work to threads and other machines, is why the epoch exists: a new leader
writes its epoch to whatever it leads (`coordination/fence.py`) before any other duty, and from then on nothing of its
predecessor is taken.

Candidates do not poll: they wait for a word of the backend, or for what the document says. So a leader that ends well
is followed at once where the backend tells, and one that was killed when its lease has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from ganger.coordination.hold import Hold
from ganger.coordination.lease import read_lease
from ganger.coordination.lock import Lock, keeping
from ganger.core.errors import LockLost
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

Duty = Callable[[Hold], Awaitable[None]]


class Reign(NamedTuple):
    """Who leads, by its token, and until when by the store's clock. Empty if nobody does."""

    holder: str
    expire: int


class Candidate(Service):
    """Stands for election until it is stopped, and does its duty whenever it leads."""

    def __init__(self, lock: Lock, duty: Duty, *, telemetry: Telemetry = SILENT) -> None:
        super().__init__(f"candidate {lock.name}", telemetry=telemetry)
        self.hold: Hold | None = None
        self._lock = lock
        self._duty = duty

    @property
    def leads(self) -> bool:
        return self.hold is not None and self.hold.is_trusted

    async def run(self) -> None:
        while not self.draining.is_set():
            self.hold = await self._stand()
            if self.hold is None:
                return
            try:
                async with keeping(self.hold):
                    await self._serve(self.hold)
            except LockLost as error:
                self._telemetry.event("leader_lost", leader=self._lock.name, error=error.message)
            finally:
                self.hold = None

    async def _stand(self) -> Hold | None:
        """Wait to be elected; None if it is not to stand any more."""
        electing = asyncio.ensure_future(self._lock.acquire(None, eager=False))
        leaving = asyncio.ensure_future(self.draining.wait())
        try:
            await asyncio.wait([electing, leaving], return_when=asyncio.FIRST_COMPLETED)
            return electing.result() if electing.done() else None
        finally:
            leaving.cancel()
            electing.cancel()
            # Whatever it was at has ended before anybody else uses the store.
            await asyncio.wait([electing])

    async def _serve(self, hold: Hold) -> None:
        """Do the duty, until it is done or the service is drained."""
        self._telemetry.event("leader_elected", leader=self._lock.name, epoch=str(hold.epoch))
        doing = asyncio.ensure_future(self._duty(hold))
        leaving = asyncio.ensure_future(self.draining.wait())
        try:
            await asyncio.wait([doing, leaving], return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                doing.result()
        finally:
            leaving.cancel()
            doing.cancel()
            await asyncio.wait([doing])


async def find_leader(lock: Lock) -> Reign:
    """Who leads now, as far as the store says."""
    reading = await lock.look()
    lease = read_lease(lock.name, reading.document)
    return Reign(lease.holder, lease.expire) if lease.expire > reading.at else Reign("", 0)
