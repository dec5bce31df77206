"""Wake-ups between processes: told after the commit, heard on a connection of their own, and never relied upon.

A wake-up is told when its transaction is over, in one of its own: a NOTIFY inside it would make all commits of the
server wait for each other. At most one for each topic goes out in `APART`, and one hint stands for all that happened
meanwhile. A listener's connection can break, and a pooler in front of the server may swallow every NOTIFY. So the same
connection asks from time to time how far the store is; if others have written and nothing was heard of it, everybody
here is told to look.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from ganger.databases.listeners import Listeners
from ganger.databases.postgres.statements import Q
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

APART: Final = 0.005
POLL: Final = 1.0
RESET: Final = "reset"

Connect = Callable[[], Awaitable[Any]]
EVERYTHING: Final = "*"
"""The topic of those who cannot know who waits for what they did."""
Pulse = Callable[[Any], Awaitable[tuple[int, bool]]]
"""How far the store is: a number that grows with whatever somebody may wait for; and should all look at once?"""


class Crier(Service):
    """Tells other processes what happened here."""

    def __init__(self, connect: Connect, channel: str, name: str, telemetry: Telemetry = SILENT) -> None:
        super().__init__("postgres crier", telemetry=telemetry)
        self._connect = connect
        self._channel = channel
        self._mark = name
        self._topics: dict[str, None] = {}
        self._some = asyncio.Event()

    def cry(self, topics: Iterable[str]) -> None:
        self._topics.update(dict.fromkeys(topics))
        if self._topics:
            self._some.set()

    async def run(self) -> None:
        connection = await self._connect()
        try:
            while True:
                await self._some.wait()
                await self._send(connection)
                await asyncio.sleep(APART)
        finally:
            connection.terminate()

    async def _send(self, connection: Any) -> None:
        topics = list(self._topics)
        await connection.execute(Q.notify, self._channel, self._mark, topics)
        for topic in topics:
            del self._topics[topic]
        if not self._topics:
            self._some.clear()


class Ear(Service):
    """Hears what happened elsewhere, and looks for itself from time to time."""

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
        super().__init__("postgres ear", telemetry=telemetry)
        self._connect = connect
        self._channel = channel
        self._mark = f"{name} "
        self._listeners = listeners
        self._pulse = pulse
        self._heard = False
        self._own = 0
        self._seen = 0
        self.ready = asyncio.Event()

    def wrote(self, n: int) -> None:
        """This process moved the pulse on by so much itself, and told its listeners."""
        self._own += n

    async def run(self) -> None:
        connection = await self._connect()
        broken = asyncio.Event()
        connection.add_termination_listener(lambda _: broken.set())
        try:
            await connection.add_listener(self._channel, self._hear)
            self._own, (self._seen, _) = 0, await self._pulse(connection)
            self._listeners.tell([RESET, *self._listeners.topics()])
            self.ready.set()
            await self._listen(connection, broken)
        finally:
            self.ready.clear()
            connection.terminate()

    async def _listen(self, connection: Any, broken: asyncio.Event) -> None:
        while not broken.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await broken.wait()
                break
            await self._look(connection)
        raise ConnectionError("the connection that hears wake-ups was lost")

    async def _look(self, connection: Any) -> None:
        own, self._own = self._own, 0
        seen, urgent = await self._pulse(connection)
        others = seen - self._seen - own
        self._seen = seen
        if urgent or (others > 0 and not self._heard):
            self._listeners.tell(self._listeners.topics())
        self._heard = False

    def _hear(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        self._heard = True
        if not payload.startswith(self._mark):
            topic = payload.partition(" ")[2]
            self._listeners.tell(self._listeners.topics() if topic == EVERYTHING else [topic])
