"""The server's websockets without jobs: the frames that a worker is sent, as fast as it answers them."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator

import uvicorn

from bench.http.echo import bare
from ganger.faces.http.limits import PLAIN_LIMITS
from ganger.faces.http.protocol import guard
from ganger.faces.http.streams import StreamPlan, StreamSocket
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


def main() -> None:
    """Serve on a free port of loopback; the port is the first line that is printed."""
    sock = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(sock.getsockname()[1], flush=True)
    streams = StreamPlan(lambda path: serve, lambda path: True, None, PLAIN_LIMITS, _LARGEST).bind()
    config = uvicorn.Config(
        bare, http=guard(PLAIN_LIMITS, streams), lifespan="off", interface="asgi3", access_log=False,
        log_level="critical",
    )  # fmt: skip
    uvicorn.Server(config).run([sock])


if __name__ == "__main__":
    main()
