"""The server's websockets without jobs: the frames that a worker is sent, as fast as it answers them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import uvloop

from ganger.faces.http.door import HttpDoor
from ganger.faces.http.grants import Grant
from ganger.faces.http.limits import PLAIN_LIMITS
from ganger.faces.http.routes import Table
from ganger.faces.http.server import HttpServer
from ganger.faces.http.streams import StreamPlan, StreamSocket
from ganger.faces.http.visits import Visits
from ganger.runtime.clock import SystemClock
from ganger.wire.jobs.messages import ASK_STATUS

_LARGEST = 1 << 26
PAYLOAD = b"x" * 1024


async def serve(socket: StreamSocket) -> None:
    """As to a worker: ask for its status, send a payload, take in a result."""
    await _take(socket)
    while True:
        await socket.send_text(ASK_STATUS)
        await _take(socket)
        await socket.send_binary(_payload())
        await _take(socket)


async def _payload() -> AsyncIterator[bytes]:
    yield PAYLOAD


async def _take(socket: StreamSocket) -> None:
    await socket.receive()
    async for _ in socket.pieces():
        pass


class _Nobody:
    """Knows no token: there is nothing here but the websockets."""

    def find(self, token: str) -> Grant | None:
        return None

    def holds(self, grant: Grant) -> bool:
        return False


async def _listen(sock: socket.socket) -> None:
    streams = StreamPlan(lambda path: serve, lambda path: True, None, PLAIN_LIMITS, _LARGEST)
    visits = Visits(_Nobody(), 1)
    door = HttpDoor(Table([]), _Nobody(), SystemClock(), visits, hosts=None, limits=PLAIN_LIMITS)
    HttpServer(door, SystemClock(), streams, sock).start()
    await asyncio.Event().wait()


def main() -> None:
    """Serve on a free port of loopback; the port is the first line that is printed."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(sock.getsockname()[1], flush=True)
    uvloop.run(_listen(sock))


if __name__ == "__main__":
    main()
