"""Workers that cost as little as can be: frames are cut by their lengths, and the answers are made beforehand."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import cast

from ganger.wire.websocket.frames import Opcode, apply_mask, encode_head

_KEY = "AAAAAAAAAAAAAAAAAAAAAA=="
_MASK = b"abcd"
_HEAD_END = b"\r\n\r\n"
_SHORT, _LONG = 126, 127


def write_frame(opcode: Opcode, data: bytes) -> bytes:
    """A frame of a client."""
    head = bytearray(encode_head(opcode, len(data)))
    head[1] |= 0x80
    return bytes(head) + _MASK + apply_mask(data, _MASK)


_READY = write_frame(Opcode.TEXT, json.dumps({"code": 1, "status": 1}).encode())
_PONG = write_frame(Opcode.PONG, b"")


class Worker(asyncio.Protocol):
    """Says that it is ready whenever it is asked, and answers each payload with the same result."""

    def __init__(self, name: str, token: str, result: bytes, crew: Crew) -> None:
        hello = {"code": 0, "name": name, "id": name, "token": token}
        self._hello = write_frame(Opcode.TEXT, json.dumps(hello).encode())
        self._result = write_frame(Opcode.BINARY, result)
        self._crew = crew
        self._buffer = bytearray()
        self._open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(
            b"GET /api/worker HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: %b\r\n\r\n" % _KEY.encode()
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._crew.fail("the server closed a connection")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._open:
            end = self._buffer.find(_HEAD_END)
            if end < 0:
                return
            del self._buffer[: end + len(_HEAD_END)]
            self._open = True
            self._transport.write(self._hello)
        while self._answer():
            pass

    def _answer(self) -> bool:
        """Answer one frame; False if none is whole."""
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        length, start = buffer[1], 2
        if length >= _SHORT:
            start = 4 if length < _LONG else 10
            length = int.from_bytes(buffer[2:start], "big")
        if len(buffer) < start + length:
            return False
        opcode = buffer[0] & 0x0F
        del buffer[: start + length]
        if opcode == Opcode.TEXT:
            self._transport.write(_READY)
        elif opcode == Opcode.BINARY:
            self._transport.write(self._result)
            self._crew.count()
        elif opcode == Opcode.PING:
            self._transport.write(_PONG)
        return True


class Crew:
    """Some workers, and how many jobs they have done."""

    def __init__(self, jobs: int) -> None:
        self._left = jobs
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def count(self) -> None:
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)

    def fail(self, why: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(why))


async def work(port: int, token: str, workers: int, jobs: int, result: bytes) -> float:
    """Jobs a second of so many workers together, from the first connection to the last result."""
    loop = asyncio.get_running_loop()
    crew = Crew(jobs)
    began = loop.time()
    lines = []
    for number in range(workers):
        enrol = partial(Worker, f"bench-{number}", token, result, crew)
        lines.append(await loop.create_connection(enrol, "127.0.0.1", port))
    await crew.done
    took = loop.time() - began
    for transport, _ in lines:
        transport.abort()
    return jobs / took
