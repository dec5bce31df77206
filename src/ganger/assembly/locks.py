"""Locks for programs: in a `with` or `async with` block, from any thread and any loop, without a node.

    with app.lock("nightly", wait=30) as lock:      # LockBusy after 30 seconds
        lock.check()                                # LockLost if nothing may be done under it any more
        write(..., epoch=lock.epoch)

The lock is renewed in the background, on a loop in a thread of its own. When it is lost, an `async with` block is
cancelled and ends with LockLost. A thread can not be cancelled: it asks `check` before each thing that it does, and the
end of its `with` block raises LockLost if the lock was lost in it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

from ganger.assembly.coordination import open_coordination
from ganger.client.bridge import Opening, ThreadBridge
from ganger.coordination.backend import Version
from ganger.coordination.coordination import Coordination
from ganger.coordination.hold import Hold
from ganger.coordination.lock import Guard
from ganger.core.errors import BadInput
from ganger.core.span import Span, to_ms, to_seconds

TTL: Final = 10.0
"""Seconds for which a lock is held without a word."""

R = TypeVar("R")
Acquire = Callable[[Coordination], Awaitable[Hold]]


class Locks:
    """The locks of one store, over one connection to it that is made at the first use."""

    def __init__(self, store: str | None) -> None:
        # A bridge carries whatever its opening gives.
        self._bridge = ThreadBridge(cast(Opening, lambda: _open(store)))

    def run(self, work: Callable[[Coordination], Coroutine[Any, Any, R]]) -> R:
        return cast(R, self._bridge.run(cast(Any, work)))

    async def arun(self, work: Callable[[Coordination], Coroutine[Any, Any, R]]) -> R:
        return cast(R, await self._bridge.arun(cast(Any, work)))

    def close(self) -> None:
        self._bridge.close()

    def lock(self, name: str, wait: Span | None, ttl: Span) -> "AppLock":
        seconds, length = to_seconds(wait, "wait"), to_ms(ttl, "ttl")
        return AppLock(self, name, lambda room: room.lock(name, ttl=length).acquire(seconds))

    def leader(self, name: str, wait: Span | None, ttl: Span) -> "AppLock":
        seconds, length = to_seconds(wait, "wait"), to_ms(ttl, "ttl")
        return AppLock(self, name, lambda room: room.leader(name, ttl=length).acquire(seconds, eager=False))

    def semaphore(self, name: str, slots: int, wait: Span | None, ttl: Span) -> "AppLock":
        seconds, length = to_seconds(wait, "wait"), to_ms(ttl, "ttl")
        return AppLock(self, name, lambda room: room.semaphore(name, slots, ttl=length).acquire(seconds))


@asynccontextmanager
async def _open(store: str | None) -> AsyncIterator[Coordination]:
    async with open_coordination(store) as coordination:
        try:
            yield coordination
        finally:
            await coordination.release_all()


class AppLock:
    """A lock, a slot of a semaphore, or the lead: taken, asked, given back; any number of times, one at a time."""

    def __init__(self, locks: Locks, name: str, acquire: Acquire) -> None:
        self._locks = locks
        self._acquire = acquire
        self._label = name
        self._hold: Hold | None = None
        self._guard: Guard | None = None

    def acquire(self) -> Self:
        """Take it, waiting as long as was said. Raises LockBusy, StoreError."""
        self._refuse_second()
        self._hold = self._locks.run(self._take)
        return self

    async def async_acquire(self) -> Self:
        """As `acquire`, from async code."""
        self._refuse_second()
        self._hold = await self._locks.arun(self._take)
        return self

    def release(self) -> None:
        """Give it back. Does nothing if it is not held."""
        hold, self._hold = self._hold, None
        if hold is not None:
            self._locks.run(lambda _: hold.release())

    async def async_release(self) -> None:
        """As `release`, from async code."""
        hold, self._hold = self._hold, None
        if hold is not None:
            await self._locks.arun(lambda _: hold.release())

    @property
    def name(self) -> str:
        """The name of its document, by which an epoch is kept: `lock/nightly`."""
        return self._held().name

    @property
    def epoch(self) -> Version:
        """Higher than that of every earlier holder: hand it to whatever is written to."""
        return self._held().epoch

    @property
    def holder(self) -> str:
        """Who holds it, as the document says: a random name, and no secret."""
        return self._held().holder

    @property
    def is_held(self) -> bool:
        """May something be done under it now?"""
        return self._hold is not None and self._hold.is_trusted

    def check(self) -> None:
        """Raise LockLost if nothing may be done under it any more."""
        self._held().check()

    def _held(self) -> Hold:
        if self._hold is None:
            raise BadInput(f"{self._label!r} is not held: take it first, best in a `with` block")
        return self._hold

    def _refuse_second(self) -> None:
        if self._hold is not None:
            raise BadInput(f"{self._label!r} is held by this very object: make another for another holder")

    async def _take(self, coordination: Coordination) -> Hold:
        return await self._acquire(coordination)

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        hold = self._held()
        lost = not hold.is_trusted
        self.release()
        if lost and kind is None:
            hold.check()

    async def __aenter__(self) -> Self:
        await self.async_acquire()
        hold = self._held()
        self._guard = Guard(hold.name, self._locks.arun(lambda _: hold.ended.wait()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        hold, guard = self._held(), self._guard
        assert guard is not None
        caused = kind is asyncio.CancelledError and guard.is_cause()
        lost = not hold.is_trusted
        guard.stop()
        await self.async_release()
        if caused or (lost and kind is None):
            hold.check()
