"""A lock that many machines contend for: one attempt, and waiting for it.

`coordination/lease.py` says when a lock may be taken, and why that is safe. Here is how it is done: read, decide,
write on the condition of the version. A write without an answer is unknown: then the document is read, and if it has
the token of this very attempt the lock may be ours. A read proves nothing, so it counts only when a renewal was
answered.

Whoever waits is woken where the backend tells of changes, and looks by itself now and then all the same. Of several
waiters in one process one contends and the others stand in line behind it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, NamedTuple

from ganger.coordination.backend import Document, Reading, check_name
from ganger.coordination.hold import Grant, Hold
from ganger.coordination.lease import Terms, find_wait, read_lease
from ganger.coordination.room import Room, make_holder
from ganger.core.clock import Moment
from ganger.core.errors import LockBusy, StaleVersion, StoreError

_AT_ONCE: Final = 5
"""Milliseconds, at most, before one who lost a race looks again."""
_UNREACHABLE: Final = 250


class Busy(NamedTuple):
    """Somebody else has it; `wait` is the milliseconds after which that may have changed without a word."""

    wait: int
    holder: str = ""
    expire: int = 0


def _no_turn() -> None:
    return None


class Lock:
    """A lock by the name of its document. Each acquisition has a name of its own, unless `holder` says who it is."""

    def __init__(self, room: Room, name: str, terms: Terms, holder: str | None = None) -> None:
        self.name = check_name(name)
        self.terms = terms
        self._room = room
        self._holder = holder

    async def look(self) -> Reading:
        """The document as it is; BadDocument if it is none of a lock."""
        reading = await self._room.backend.read(self.name)
        read_lease(self.name, reading.document)
        return reading

    async def attempt(self, fill: Document | None = None, give_on: Callable[[], None] = _no_turn) -> Hold | Busy:
        """Take it if it is free. `fill` is what else the document has, if it is not there yet.

        Raises StoreError if the store can not tell; then it is not held, but others may have to wait for a ttl.
        """
        room, asked = self._room, self._room.clock.now()
        reading = await room.backend.read(self.name)
        wait = find_wait(self.name, reading, self.terms, room.sights, room.clock.now())
        if wait:
            lease = read_lease(self.name, reading.document)
            return Busy(wait, lease.holder, lease.expire)
        sent = room.clock.now()
        expire = reading.at + (sent - asked) + self.terms.ttl
        holder = self._holder or make_holder(room.entropy)
        document: Document = {**(reading.document or fill or {}), "holder": holder, "expire": expire}
        try:
            written = await room.backend.write(self.name, document, reading.version)
        except StaleVersion:
            return Busy(1 + round(_AT_ONCE * room.entropy.uniform()))
        except StoreError as error:
            document, grant = await self._find_own(holder, sent, error)
        else:
            grant = Grant(written.version, sent, written.at)
        return Hold(room, self.name, self.terms, document=document, grant=grant, ended=give_on)

    async def _find_own(self, holder: str, sent: Moment, error: StoreError) -> tuple[Document, Grant]:
        """Nobody knows whether the lock was taken: find out within its trusted time, or raise the error.

        What has our token was written by us. A read may be old, so the lock is taken again: that is the acquisition.
        """
        room, deadline = self._room, sent + self.terms.ttl - self.terms.margin
        while (left := deadline - room.clock.now()) > 0:
            try:
                async with asyncio.timeout(left / 1_000):
                    found = await self._take_again(holder)
            except (StaleVersion, TimeoutError):
                break
            except StoreError:
                await asyncio.sleep(self.terms.ttl * (0.02 + 0.03 * room.entropy.uniform()) / 1_000)
                continue
            if found is None:
                break
            return found
        raise error

    async def _take_again(self, holder: str) -> tuple[Document, Grant] | None:
        room, asked = self._room, self._room.clock.now()
        found = await room.backend.read(self.name)
        if found.document is None or read_lease(self.name, found.document).holder != holder:
            return None
        sent = room.clock.now()
        document = {**found.document, "expire": found.at + (sent - asked) + self.terms.ttl}
        written = await room.backend.write(self.name, document, found.version)
        return document, Grant(written.version, sent, written.at)

    async def acquire(self, wait: float | None = 0.0, *, eager: bool = True) -> Hold:
        """Take it, and wait for it for so many seconds; None means as long as it takes.

        Raises LockBusy when the time is up, and StoreError if the store could not be asked until then. `eager` looks
        every fifth of a ttl; who is not waits for what the document says, or for a word of the backend.
        """
        clock = asyncio.get_running_loop()
        end = None if wait is None else clock.time() + wait
        try:
            # With no time to wait only a turn is taken that is free at once.
            async with asyncio.timeout_at(end):
                give_on = await self._room.turns.take(self.name)
        except TimeoutError:
            raise self._tell_busy(Busy(0)) from None
        try:
            return await self._contend(end, eager, give_on)
        except BaseException:
            give_on()
            raise

    async def _contend(self, end: float | None, eager: bool, give_on: Callable[[], None]) -> Hold:
        clock, told = asyncio.get_running_loop(), asyncio.Event()
        with self._watching(told):
            while True:
                told.clear()
                failed: StoreError | None = None
                try:
                    found = await self.attempt(give_on=give_on)
                except StoreError as error:
                    failed, found = error, Busy(_UNREACHABLE)
                if isinstance(found, Hold):
                    return found
                pause = self._choose_pause(found, eager=eager) / 1_000
                if end is not None and clock.time() + pause > end:
                    pause = end - clock.time()
                if pause <= 0:
                    raise failed or self._tell_busy(found)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await told.wait()

    def _choose_pause(self, busy: Busy, *, eager: bool) -> float:
        jitter = self._room.entropy.uniform()
        if not eager:
            return busy.wait + self.terms.ttl * 0.05 * jitter
        look = min(self._room.backend.capabilities.look or self.terms.look, self.terms.look)
        return min(float(busy.wait + _AT_ONCE * jitter), look * (0.5 + jitter))

    @contextmanager
    def _watching(self, told: asyncio.Event) -> Iterator[None]:
        stop = self._room.backend.watch([self.name], told.set)
        try:
            yield
        finally:
            stop()

    def _tell_busy(self, busy: Busy) -> LockBusy:
        by = f" by {busy.holder}" if busy.holder else ""
        return LockBusy(
            f"the lock {self.name!r} is held{by}: wait longer, or try again later",
            lock=self.name,
            holder=busy.holder,
            expire=busy.expire,
        )


@asynccontextmanager
async def keeping(hold: Hold) -> AsyncIterator[Hold]:
    """Run a block under a hold: it is cancelled when the lock is lost, which is then told as LockLost."""
    guard = Guard(hold.name, hold.ended.wait())
    try:
        yield hold
    except asyncio.CancelledError:
        if guard.is_cause():
            hold.check()
        raise
    finally:
        guard.stop()
        await hold.release()
    if guard.struck:
        hold.check()


class Guard:
    """Cancels the task that made it when a lock has ended."""

    def __init__(self, name: str, ended: Awaitable[object]) -> None:
        self.struck = False
        self._task = asyncio.current_task()
        self._cancelling = 0 if self._task is None else self._task.cancelling()
        self._watch = asyncio.create_task(self._strike(ended), name=f"guard {name}")

    async def _strike(self, ended: Awaitable[object]) -> None:
        await ended
        self.struck = True
        if self._task is not None:
            self._task.cancel()

    def is_cause(self) -> bool:
        """Was it the loss of the lock that cancelled the task, and nothing else?"""
        return self.struck and self._task is not None and self._task.uncancel() <= self._cancelling

    def stop(self) -> None:
        self._watch.cancel()
