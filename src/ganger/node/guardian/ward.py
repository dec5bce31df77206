"""An attempt in a guardian's care, as the node sees it."""

import asyncio
from typing import Protocol

from ganger.core.clock import Moment
from ganger.core.errors import GangerError
from ganger.core.ids import Fence, TaskId
from ganger.node.guardian.messages import End, Forget, Key, Order, Stop, Trust, Watch
from ganger.node.spool import Bell, Extent, Signal


class Post(Protocol):
    """Where a ward's orders go: to the guardian, now or as soon as there is one again."""

    def send(self, order: Order) -> None: ...

    def release(self, key: Key) -> None: ...


class Ward:
    """It was asked for (`begun` waits for the answer), it runs, it has ended (`ended`), it is forgotten."""

    def __init__(self, key: Key, post: Post, until: int = 0, serial: int = 0) -> None:
        self.key = key
        self.serial = serial
        self.pid = 0
        self._post = post
        self._until = until
        self._wish: Stop | None = None
        self._bells: dict[str, Bell] = {}
        self._begun = asyncio.Event()
        self._closed = asyncio.Event()
        self._end: End | None = None
        self._error: GangerError | None = None
        self._refusal: GangerError | None = None
        self._is_abandoned = False

    @property
    def task(self) -> TaskId:
        return TaskId(self.key[0])

    @property
    def fence(self) -> Fence:
        return Fence(self.key[1])

    @property
    def is_open(self) -> bool:
        return not self._closed.is_set()

    @property
    def has_begun(self) -> bool:
        return self._begun.is_set()

    async def begun(self) -> None:
        """Wait for the guardian's answer to its start: it runs, or it has ended already."""
        await self._begun.wait()
        if self._refusal is not None:
            raise self._refusal

    async def ended(self) -> End:
        """Wait until nothing of it runs. NodeGone: another node has taken over, and will be told instead."""
        await self._closed.wait()
        if self._end is None:
            raise self._error or RuntimeError("a ward was closed without an end")
        return self._end

    def stop(self, why: str, text: str) -> None:
        if self._wish is None:
            self._wish = Stop(*self.key, why, text)
            self._post.send(self._wish)

    def withdraw(self) -> None:
        """Let it not begin, if it has not."""
        if self.is_open:
            self._post.send(Stop(*self.key, "shutdown", "it was taken back", unbegun=True))

    def trust(self, until: Moment) -> None:
        self._until = until
        self._post.send(Trust([(*self.key, until)]))

    def forget(self) -> None:
        """Its end is safe in the store: no later node need be told."""
        self._post.send(Forget([self.key]))
        self._post.release(self.key)

    def abandon(self) -> None:
        """Nobody wants it any more: end it, and keep nothing of it."""
        self._is_abandoned = True
        if self.is_open:
            self.stop("shutdown", "its start was given up")
        else:
            self.forget()

    def signal(self, stream: str) -> Signal:
        """What tells how far a stream reaches, from now on to its end."""
        if not self._bells and self.is_open:
            self._post.send(Watch(*self.key))
        if stream not in self._bells:
            self._bells[stream] = Bell()
            self._ring_last(stream)
        return self._bells[stream]

    def renew(self) -> list[Order]:
        """What another guardian, or another connection, must be told of it."""
        orders: list[Order] = [Trust([(*self.key, self._until)])] if self._until else []
        if self._bells:
            orders.append(Watch(*self.key))
        if self._wish is not None:
            orders.append(self._wish)
        return orders

    def begin(self, pid: int, serial: int) -> None:
        self.pid, self.serial = pid, serial
        if self._bells and not self.has_begun:
            # A guardian does not know whom to watch before it has begun it.
            self._post.send(Watch(*self.key))
        self._begun.set()

    def grow(self, stream: str, length: int, dropped: int) -> None:
        if stream in self._bells:
            self._bells[stream].tell(Extent(length, dropped))

    def finish(self, end: End) -> None:
        if not self.is_open:
            return
        self.begin(self.pid, end.serial)
        self._end = end
        self._close()
        for stream in self._bells:
            self._ring_last(stream)

    def fail(self, error: GangerError) -> None:
        """Nobody will ever tell this node how it ended."""
        if not self.has_begun:
            self._refusal = error
            self._begun.set()
            self._post.release(self.key)
        if self.is_open:
            self._error = error
            self._close()

    def _close(self) -> None:
        self._closed.set()
        if self._is_abandoned:
            self.forget()

    def _ring_last(self, stream: str) -> None:
        if self._end is not None:
            length, dropped = self._end.streams.get(stream, (0, 0))
            self._bells[stream].tell(Extent(length, dropped, ended=True))
