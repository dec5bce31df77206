"""A plain file server on the same base: what is PUT is written to a file and synced, what is got is read from it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

_PIECE = 1 << 20


class FileServer:
    """An ASGI application and nothing else: no hashes, no list, no tokens."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = self._folder / scope["path"].strip("/")
        if scope["method"] == "PUT":
            await self._take(path, receive)
            return await _answer(send, 0, [])
        size = path.stat().st_size
        with path.open("rb") as file:
            return await _answer(send, size, iter(lambda: file.read(_PIECE), b""))

    async def _take(self, path: Path, receive: Any) -> None:
        with path.open("wb", buffering=0) as file:
            held, more = bytearray(), True
            while more:
                message = await receive()
                held += message.get("body", b"")
                more = message.get("more_body", False)
                if len(held) >= _PIECE or not more:
                    await asyncio.to_thread(file.write, bytes(held))
                    held.clear()
            await asyncio.to_thread(os.fsync, file.fileno())


async def _answer(send: Any, size: int, pieces: Any) -> None:
    head = [(b"content-length", b"%d" % size)]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def main(folder: str) -> None:
    """Serve on a free port of loopback; the port is the first line that is printed."""
    sock = socket.create_server(("127.0.0.1", 0))
    print(sock.getsockname()[1], flush=True)
    config = uvicorn.Config(
        FileServer(Path(folder)), http="httptools", loop="uvloop", lifespan="off", interface="asgi3",
        access_log=False, log_level="critical",
    )  # fmt: skip
    uvicorn.Server(config).run([sock])


if __name__ == "__main__":
    main(sys.argv[1])
