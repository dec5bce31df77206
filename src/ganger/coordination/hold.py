"""A lock in the hands of this process: renewed in the background, trusted until its deadline, given back at the end."""

import asyncio
import contextlib
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from ganger.coordination.backend import Document, Version
from ganger.coordination.lease import Terms, read_lease
from ganger.coordination.room import Room
from ganger.core.clock import Moment, Wall
from ganger.core.errors import GangerError, LockLost, StaleVersion, StoreError

_TICK: Final = 1_000
"""Milliseconds after which the boot clock is looked at: the loop's own does not count the time that a machine slept."""


class Ended(StrEnum):
    """Why a lock is not held any more."""

    RELEASED = "it was given back"
    TAKEN = "somebody else has it, or has changed its document"
    EXPIRED = "it could not be renewed in time"


class Grant(NamedTuple):
    """What an acquisition, or the last renewal, was answered: when it was sent, and what it gave."""

    version: Version
    sent: Moment
    at: Wall


class Hold:
    """A lock that is held. `epoch` is the version that the acquisition gave: no earlier holder has a higher one.

    It renews itself until it is released or lost. Whoever works under it asks `check` (or `is_trusted`) before each
    thing that it does, or waits for `ended`; and hands `epoch` to whatever it writes to.
    """

    def __init__(
        self,
        room: Room,
        name: str,
        terms: Terms,
        *,
        document: Document,
        grant: Grant,
        ended: Callable[[], None],
    ) -> None:
        self.name = name
        self.epoch = grant.version
        self.ended = asyncio.Event()
        self.reason: Ended | None = None
        self._backend = room.backend
        self._clock = room.clock
        self._entropy = room.entropy
        self._terms = terms
        self._document = document
        self._grant = grant
        self._told = ended
        self._holds = room.holds
        self._holds.add(self)
        self._keeper = asyncio.create_task(self._keep(), name=f"hold {name}")

    @property
    def holder(self) -> str:
        """Who holds it, as the document says: a name, and no secret."""
        return str(self._document["holder"])

    @property
    def document(self) -> Document:
        """The document as it was written last."""
        return self._document

    @property
    def deadline(self) -> Moment:
        """Until when it is trusted if nothing more is heard, by the boot clock."""
        return Moment(self._grant.sent + self._terms.ttl - self._terms.margin)

    @property
    def remaining(self) -> int:
        """Milliseconds for which it is trusted; 0 if it is not."""
        return max(0, self.deadline - self._clock.now()) if self.reason is None else 0

    @property
    def is_trusted(self) -> bool:
        return self.remaining > 0

    def check(self) -> None:
        """Raise LockLost if nothing may be done under it any more."""
        if not self.is_trusted:
            raise LockLost(
                f"the lock {self.name!r} is not held any more: {self.reason or Ended.EXPIRED}", lock=self.name
            )

    async def release(self) -> None:
        """Give it back: others may take it at once. What can not be said is not insisted on: it ends by itself."""
        await self._give_back({**self._document, "expire": 0})

    async def _give_back(self, document: Document) -> bool:
        """Write this as the last word; False if the lock was lost before."""
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        done = False
        if self.reason is None:
            with contextlib.suppress(GangerError, TimeoutError):
                async with asyncio.timeout(max(0.001, self.remaining / 1_000)):
                    done = await self._write_last(document)
        self._end(Ended.RELEASED)
        return done

    async def finish(self, document: Document) -> bool:
        """Give it back with another document in its place. False: it was lost, and nothing was written."""
        return await self._give_back(document)

    async def _write_last(self, document: Document) -> bool:
        while self.is_trusted:
            try:
                await self._backend.write(self.name, document, self._grant.version)
                return True
            except (StaleVersion, StoreError):
                # It may have been written all the same.
                found = await self._backend.read(self.name)
                if found.document == document:
                    return True
                if not self._is_own(found.document) or found.version is None:
                    return False
                self._grant = self._grant._replace(version=found.version)
                await asyncio.sleep(self._terms.margin / 10_000)
        return False

    async def _keep(self) -> None:
        try:
            await self._renew_until_lost()
        except Exception:
            self._end(Ended.EXPIRED)
            raise

    async def _renew_until_lost(self) -> None:
        due = self._grant.sent + self._terms.renewal
        while self.is_trusted:
            wait = min(due, self.deadline) - self._clock.now()
            if wait > 0:
                await asyncio.sleep(min(wait, _TICK) / 1_000)
                continue
            if not await self._renew():
                return
            # One that failed is tried again soon; one that was answered is good for a while.
            pause = self._terms.ttl * (0.03 + 0.04 * self._entropy.uniform())
            due = max(self._grant.sent + self._terms.renewal, self._clock.now() + round(pause))
        self._end(Ended.EXPIRED)

    async def _renew(self) -> bool:
        """Write a later expire; False if the lock is somebody else's."""
        sent = self._clock.now()
        expire = self._grant.at + (sent - self._grant.sent) + self._terms.ttl
        document = {**self._document, "expire": expire}
        try:
            async with asyncio.timeout(max(0.001, self.remaining / 1_000)):
                written = await self._backend.write(self.name, document, self._grant.version)
        except StaleVersion:
            return await self._recover(certain=True)
        except (StoreError, TimeoutError):
            return await self._recover(certain=False)
        self._document = document
        self._grant = Grant(written.version, sent, written.at)
        return True

    async def _recover(self, *, certain: bool) -> bool:
        """A renewal was refused, or nobody knows: is the document still ours? Then the next one goes by its version.

        A read proves nothing, so the deadline stays where it was. `certain`: a refusal means that something was
        written; if it was not by us, the lock is lost.
        """
        try:
            async with asyncio.timeout(max(0.001, self.remaining / 1_000)):
                found = await self._backend.read(self.name)
        except (GangerError, TimeoutError):
            return True
        if self._is_own(found.document) and found.version is not None:
            self._grant = self._grant._replace(version=found.version)
            return True
        if certain or found.version != self._grant.version:
            self._end(Ended.TAKEN)
            return False
        return True

    def _is_own(self, document: Document | None) -> bool:
        try:
            lease = read_lease(self.name, document)
        except GangerError:
            return False
        return lease.holder == self.holder and lease.expire > 0

    def _end(self, reason: Ended) -> None:
        if self.reason is None:
            self.reason = reason
            self.ended.set()
            self._holds.discard(self)
            self._told()

    async def abandon(self) -> None:
        """Stop renewing, and say nothing to anybody: what a process that dies does."""
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        self._end(Ended.EXPIRED)
