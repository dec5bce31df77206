"""Wake-ups between processes: told after the commit, heard on a connection of their own, and never relied upon.

A wake-up is told when its transaction is over, in one of its own: a NOTIFY inside it would make all commits of the
server wait for each other. At most one for each topic goes out in `APART`, and one hint stands for all that happened
meanwhile.

What can go wrong, and why nobody waits for one that is lost:

- a topic is cried while a wake-up of it is on its way, which was perhaps heard before the commit that it is about. So
  what is sent leaves the list before it is sent, and what comes meanwhile is sent again;
- the teller dies between its commit and its wake-up, or a pooler in front of the server swallows every NOTIFY. So the
  connection that hears also asks, a little more often than once a second, how far the store is. If that is not where it
  was, everybody here is told to look, whatever was heard in between and whoever wrote: no count of those can say that
  none was lost;
- a connection breaks, again and again perhaps. A new one is made half a second later, however often that happens, and
  everybody is told to look. One that does not answer any more counts as broken.
"""

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from ganger.databases.listeners import Listeners
from ganger.databases.postgres.errors import LOST
from ganger.databases.postgres.statements import Q
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

APART: Final = 0.005
POLL: Final = 0.75
AGAIN: Final = 0.5
ANSWER: Final = 5.0
"""Seconds: between two looks, before a new connection, and until one that says nothing counts as broken."""
RESET: Final = "reset"

Connect = Callable[[], Awaitable[Any]]
EVERYTHING: Final = "*"
"""The topic of those who cannot know who waits for what they did."""
Pulse = Callable[[Any], Awaitable[tuple[object, bool]]]
"""How far the store is: a value that is another after whatever somebody may wait for; and should all look at once?"""


class Connected(Service):
    """A loop with a connection of its own, which is made anew whenever it is lost."""

    def __init__(self, name: str, connect: Connect, telemetry: Telemetry) -> None:
        super().__init__(name, telemetry=telemetry)
        self._connect = connect

    @abstractmethod
    async def serve(self, connection: Any) -> None:
        """What is done with a connection, as long as it lasts."""

    async def run(self) -> None:
        told = False
        while True:
            try:
                connection = await self._connect()
                told = False
                try:
                    await self.serve(connection)
                finally:
                    connection.terminate()
            except LOST as error:
                if not told:
                    # Once for each time that the server is gone, not twice a second.
                    self._telemetry.event("service_crashed", service=self.name, error=repr(error), pause=AGAIN)
                told = True
            await asyncio.sleep(AGAIN)


class Crier(Connected):
    """Tells other processes what happened here."""

    def __init__(self, connect: Connect, channel: str, name: str, telemetry: Telemetry = SILENT) -> None:
        super().__init__("postgres crier", connect, telemetry)
        self._channel = channel
        self._mark = name
        self._topics: dict[str, None] = {}
        self._some = asyncio.Event()

    def cry(self, topics: Iterable[str]) -> None:
        self._topics.update(dict.fromkeys(topics))
        if self._topics:
            self._some.set()

    async def serve(self, connection: Any) -> None:
        while True:
            await self._some.wait()
            await self._send(connection)
            await asyncio.sleep(APART)

    async def _send(self, connection: Any) -> None:
        topics, self._topics = list(self._topics), {}
        self._some.clear()
        try:
            async with asyncio.timeout(ANSWER):
                await connection.execute(Q.notify, self._channel, self._mark, topics)
        except BaseException:
            self.cry(topics)
            raise


class Ear(Connected):
    """Hears what happened elsewhere, and looks for itself once a second."""

    def __init__(
        self,
        connect: Connect,
        channel: str,
        name: str,
        *,
        listeners: Listeners,
        pulse: Pulse,
        telemetry: Telemetry = SILENT,
    ) -> None:
        super().__init__("postgres ear", connect, telemetry)
        self._channel = channel
        self._mark = f"{name} "
        self._listeners = listeners
        self._pulse = pulse
        self._seen: object = None
        self.ready = asyncio.Event()

    async def serve(self, connection: Any) -> None:
        broken = asyncio.Event()
        connection.add_termination_listener(lambda _: broken.set())
        try:
            await connection.add_listener(self._channel, self._hear)
            self._seen, _ = await self._ask(connection)
            self._listeners.tell([RESET, *self._listeners.topics()])
            self.ready.set()
            await self._listen(connection, broken)
        finally:
            self.ready.clear()

    async def _listen(self, connection: Any, broken: asyncio.Event) -> None:
        while not broken.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await broken.wait()
                break
            await self._look(connection)
        raise ConnectionError("the connection that hears wake-ups was lost")

    async def _look(self, connection: Any) -> None:
        before = self._seen
        self._seen, urgent = await self._ask(connection)
        if urgent or self._seen != before:
            self._listeners.tell(self._listeners.topics())

    async def _ask(self, connection: Any) -> tuple[object, bool]:
        async with asyncio.timeout(ANSWER):
            return await self._pulse(connection)

    def _hear(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        if not payload.startswith(self._mark):
            topic = payload.partition(" ")[2]
            self._listeners.tell(self._listeners.topics() if topic == EVERYTHING else [topic])
