"""What the connections of a server share: who is there, what is being served, the time of day."""

import asyncio
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from typing import Any, Protocol

from ganger.core.clock import Clock


class Connected(Protocol):
    """A connection, as the server that stops knows it."""

    def shutdown(self) -> None:
        """Take in nothing more, and end when what has begun is answered."""

    def abort(self) -> None:
        """End now."""


class Hub:
    """The connections that are open, the tasks that serve them, and the date that all answers bear."""

    def __init__(self, clock: Clock) -> None:
        self.loop = asyncio.get_running_loop()
        self.connections: set[Connected] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self._clock = clock
        self._date, self._until = b"", 0.0

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    @property
    def date(self) -> bytes:
        """The line with the time of day, made once a second."""
        now = self.loop.time()
        if now >= self._until:
            self._until = now + 1
            self._date = b"date: %b\r\n" % formatdate(self._clock.wall() / 1000, usegmt=True).encode()
        return self._date


class Deadline:
    """By when something must have happened on a connection. It is moved with most requests, so the timer is lazy."""

    __slots__ = ("_armed", "_at", "_loop", "_then", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._armed = self._at = 0.0
        self._then: Callable[[], None] | None = None

    def set(self, seconds: float, then: Callable[[], None]) -> None:
        """`then` is called in so many seconds, unless another deadline is set or this one is cleared before."""
        self._at, self._then = self._loop.time() + seconds, then
        if self._timer is None or self._at < self._armed:
            self.stop()
            self._arm()

    def clear(self) -> None:
        self._then = None

    def stop(self) -> None:
        """Nothing is set on this connection any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._armed = self._at
        self._timer = self._loop.call_at(self._at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._then is None:
            return
        if self._loop.time() < self._at:
            self._arm()
            return
        then, self._then = self._then, None
        then()
