"""The one shape of a loop: a service starts, runs, is drained or stopped, and has children that live and end with it.

What goes wrong with loops is always the same. A loop dies of one bad item, nobody notices, and hours later the queue is
found full. A stop comes twice, or while the start is still under way, and half of the parts stay. A stop is itself
cancelled, and leaves a loop behind. So there is one place that does it:

- a `run` that raises is told as `service_crashed` and begins again after a pause that grows to half a minute and is
  forgotten after a minute of health; a `run` that returns has finished and is not begun again;
- children start before their parent runs and end after it, in the opposite order; if one cannot start, none stays;
- a `run` that a cancellation did not reach is cancelled again;
- all who stop a service share one ending, which goes on if the one who waits for it is cancelled, so `stop` may be
  called any number of times, from anywhere, even from inside `run`;
- what was stopped is not started again: make a new one.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final

from ganger.runtime.faults import name_fault
from ganger.runtime.telemetry import SILENT, Telemetry

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 30.0
CANCEL_AGAIN: Final = 2.0
HEALTHY: Final = 60.0
"""After so many seconds without a crash the next pause is the first again."""


class ServiceState(StrEnum):
    NEW = "new"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"


class Service:
    """A loop with a name. Override `run`; it may look at `draining`, and must let a cancellation through."""

    def __init__(
        self,
        name: str,
        *,
        children: Sequence["Service"] = (),
        telemetry: Telemetry = SILENT,
        pause: float = FIRST_PAUSE,
    ) -> None:
        self.name = name
        self.state = ServiceState.NEW
        self.draining = asyncio.Event()
        self._children = tuple(children)
        self._telemetry = telemetry
        self._first_pause = pause
        self._loop: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """The loop itself. By default there is none: the service lives through its children until it is drained."""
        await self.draining.wait()

    async def start(self) -> None:
        """Start the children, then the loop. A second start changes nothing; one after a stop is refused."""
        if self._ending is not None:
            raise RuntimeError(f"service {self.name} was stopped and cannot be started again: make a new one")
        if self.state is not ServiceState.NEW:
            return
        self.state = ServiceState.RUNNING
        await self._start_children()
        if self._ending is None:
            self._loop = asyncio.create_task(self._supervise(), name=self.name)
            self._telemetry.event("service_started", service=self.name)

    async def _start_children(self) -> None:
        try:
            for child in self._children:
                await child.start()
        except BaseException:
            await self.stop()
            raise

    async def drain(self) -> None:
        """Let the loop finish what it has begun and take nothing new, the children likewise; then stop.

        A loop that does not look at `draining` is not waited for longer than the caller waits: a cancelled drain
        leaves the service draining, and `stop` ends it.
        """
        if self.state is ServiceState.RUNNING:
            self.state = ServiceState.DRAINING
        self.draining.set()
        if self._loop is not None:
            await asyncio.wait([self._loop])
        for child in reversed(self._children):
            await child.drain()
        await self.stop()

    async def stop(self) -> None:
        """End the loop and the children now. It may be called at any time and by many at once."""
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(), name=f"stop {self.name}")
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        if self._loop is not None:
            await _cancel(self._loop)
        for child in reversed(self._children):
            await child.stop()
        self.state = ServiceState.STOPPED
        self._telemetry.event("service_stopped", service=self.name)

    async def _supervise(self) -> None:
        clock = asyncio.get_running_loop()
        pause = self._first_pause
        while True:
            began = clock.time()
            try:
                await self.run()
                return
            except Exception as error:
                if clock.time() - began > HEALTHY:
                    pause = self._first_pause
                self._telemetry.event("service_crashed", service=self.name, error=name_fault(error), pause=pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self.draining.wait()
                return
            pause = min(pause * 2, LONGEST_PAUSE)


async def _cancel(loop: asyncio.Task[None]) -> None:
    """Until it has ended. One cancellation may get lost: `asyncio.wait_for` of Python 3.11 drops one that meets its
    result, and libraries use it. The next comes late enough for an ending to end.
    """
    while not loop.done():
        loop.cancel()
        await asyncio.wait([loop], timeout=CANCEL_AGAIN)
