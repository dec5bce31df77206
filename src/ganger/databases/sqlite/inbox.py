"""Units of this process on their way to the thread that serves the file.

A post is an append to a deque and, only if that thread sleeps, one byte on a socket pair. Nothing can be missed: the
thread says that it sleeps before it looks a last time, and whoever posts appends before it looks whether the thread
sleeps, so at least one of the two sees the other.

A loop that posts does not ring at once but at its next turn: what its other coroutines post in this one goes into the
same group. Rung at once, the thread would begin with the first unit alone, and the rest would wait for that commit.
"""

import asyncio
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterable

from ganger.core.errors import StoreClosed
from ganger.databases.sqlite.unit import Blocked, Unit


class Inbox:
    __slots__ = ("_asleep", "_bell", "_disposed", "_ringing", "_rung", "_units", "closed", "ear", "express", "lend")

    def __init__(self) -> None:
        self.ear, self._bell = socket.socketpair()
        self.ear.setblocking(False)
        self._bell.setblocking(False)
        self._units: deque[Unit] = deque()
        self._asleep = False
        self._rung = False
        self._ringing: asyncio.AbstractEventLoop | None = None
        self._disposed = False
        self.closed = False
        self.express: Callable[[Unit], bool] | None = None
        """A shorter way for a unit, on the thread that posts it; False sends it the long way."""
        self.lend: Callable[[Blocked, int], None] | None = None
        """Lets a thread that has nothing to do but wait take its answer in by itself, while one comes within so many
        milliseconds; it may come back without one."""

    def __len__(self) -> int:
        return len(self._units)

    def post(self, unit: Unit, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Hand a unit in, from that running loop or from a plain thread.

        After `close` it raises StoreClosed, and the unit will not be run.
        """
        if self.closed:
            raise _closed()
        if (express := self.express) is not None and express(unit):
            return
        self._units.append(unit)
        if self._asleep:
            self._wake(loop)
        if self._was_closed():
            self._take_back(unit)

    def _wake(self, loop: asyncio.AbstractEventLoop | None) -> None:
        if loop is None:
            self.ring()
        elif self._ringing is not loop:
            self._ringing = loop
            loop.call_soon(self._ring_late)

    def _ring_late(self) -> None:
        self._ringing = None
        if self._asleep:
            self.ring_if_open()

    def _was_closed(self) -> bool:
        return self.closed

    def _take_back(self, unit: Unit) -> None:
        # Closed in between: a unit that is still here might never be looked at; one that is gone will be answered.
        try:
            self._units.remove(unit)
        except ValueError:
            return
        raise _closed()

    def take(self, most: int) -> list[Unit]:
        """The oldest units, at most so many."""
        units = self._units
        return [units.popleft() for _ in range(min(most, len(units)))]

    def give_back(self, units: Iterable[Unit]) -> None:
        """Units that were taken and not run: they come first again."""
        self._units.extendleft(reversed(list(units)))

    def ring(self) -> None:
        """Wake the thread without a unit, because something else changed."""
        self._asleep = False
        self._rung = True
        try:
            self._bell.send(b"\0")
        except BlockingIOError:
            return  # the socket is full of bells: the thread is awake
        except OSError:
            # The thread saw by itself that it is over, and has gone in between.
            if not self._disposed:
                raise

    def doze(self) -> bool:
        """Say that the thread is about to sleep; False if there is something to do instead."""
        self._asleep = True
        if self._units or self._rung:
            self._asleep = False
        return self._asleep

    def rouse(self) -> None:
        """The thread is awake again."""
        self._asleep = False
        if self._rung:
            self._rung = False
            self._empty_ear()

    def _empty_ear(self) -> None:
        try:
            while self.ear.recv(4096):
                pass
        except BlockingIOError:
            return  # heard everything

    def ring_if_open(self) -> None:
        if not self.closed:
            self.ring()

    def wait(self, seconds: float) -> None:
        """Sleep until something is posted, the bell is rung, or the time is over."""
        if self.doze():
            with selectors.DefaultSelector() as selector:
                selector.register(self.ear, selectors.EVENT_READ)
                selector.select(seconds)
        self.rouse()

    def close(self) -> None:
        """Take no more; what was posted before is still served."""
        if not self.closed:
            self.closed = True
            self.ring()

    def dispose(self) -> None:
        self._disposed = True
        self.ear.close()
        self._bell.close()


def _closed() -> StoreClosed:
    return StoreClosed("the file was closed by this process: open it again")
