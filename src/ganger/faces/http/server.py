"""The HTTP server: it listens on a socket, and its connections are served by a door.

It is small because of what it leaves to others: the gate lets connections in, the parser is httptools, TLS is the
event loop's, and what is answered is the door's.
"""

import asyncio
import socket
import ssl
from typing import Final

from ganger.core.clock import Clock
from ganger.faces.http.connection import Connection
from ganger.faces.http.door import HttpDoor
from ganger.faces.http.gate import Gate
from ganger.faces.http.hub import Hub
from ganger.faces.http.streams import StreamPlan

_BACKLOG: Final = 2_048


class HttpServer:
    """A server on a socket that is bound, with TLS if there is a context for it."""

    def __init__(
        self, door: HttpDoor, clock: Clock, streams: StreamPlan, sock: socket.socket, tls: ssl.SSLContext | None = None
    ) -> None:
        self._door = door
        self._streams = streams
        self.sock = sock
        self._tls = tls
        self._hub = Hub(clock)
        self._gate: Gate | None = None

    def start(self) -> None:
        """Listen."""
        self.sock.listen(_BACKLOG)
        self.sock.setblocking(False)
        plan = self._streams
        self._gate = Gate(self.sock, self._connect, self._tls, plan.limits, plan.telemetry)
        self._gate.open()

    def _connect(self) -> Connection:
        return Connection(self._hub, self._door, self._streams)

    async def stop(self, grace: float) -> None:
        """Accept nobody more, answer what has begun, for so many seconds, and close all connections."""
        if self._gate is not None:
            self._gate.close()
        for connection in list(self._hub.connections):
            connection.shutdown()
        if tasks := self._hub.tasks:
            await asyncio.wait(tasks, timeout=grace)
        for task in (left := list(self._hub.tasks)):
            task.cancel()
        if left:
            await asyncio.wait(left)
        for connection in list(self._hub.connections):
            connection.abort()
