"""Blocking calls that go on beside each other while their caller does something else, each seen to its end."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from ganger.runtime.threads import run_whole

G = TypeVar("G")
T = TypeVar("T")


class Works:
    """The calls of one reader or writer. Whoever begins some ends them: `finish` if all is well, `abandon` if not."""

    def __init__(self) -> None:
        self._running: list[asyncio.Future[Any]] = []

    def begin(self, call: Callable[[G], T], given: G) -> "asyncio.Future[T]":
        """Have it done in a thread; its result is there after `finish`."""
        work = asyncio.ensure_future(run_whole(call, given))
        self._running.append(work)
        return work

    async def finish(self) -> None:
        """Wait for all that were begun; raises what one of them has raised."""
        while self._running:
            await self._running[0]
            del self._running[0]

    async def abandon(self) -> None:
        """See the end of what nobody wants any more; what it raises is told by whatever broke off the rest."""
        running, self._running = self._running, []
        for work in running:
            work.cancel()
        if running:
            await asyncio.wait(running)
        for work in running:
            if not work.cancelled():
                work.exception()
