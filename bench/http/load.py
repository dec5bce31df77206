"""A client that sends the same request over and over on many connections, and costs far less than any server.

One thread and one `epoll`: a connection sends its next request when the answer to the last is whole. Nothing is parsed
but the status and the length of the body. Connections are kept open.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_RECEIVED = 1 << 16
_LENGTH = b"content-length: "
_SILENCE = 30.0
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server is, and what lets a client in."""

    host: str
    port: int
    token: str = ""

    def write(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A whole request."""
        head = [f"{method} {path} HTTP/1.1", f"host: {self.host}:{self.port}"]
        head += [f"authorization: Bearer {self.token}"] if self.token else []
        head += ["content-type: application/json", f"content-length: {len(body)}"] if body else []
        return "\r\n".join([*head, "", ""]).encode() + body

    def connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), timeout=_SILENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


class RefusedError(Exception):
    """A server answered something else than a success."""


@dataclass(slots=True)
class _Line:
    """One connection, and what has come of an answer that is not whole."""

    connection: socket.socket
    begun: bytes = b""

    def receive(self) -> bool:
        """Take what has come: is the answer whole?"""
        data = self.connection.recv(_RECEIVED)
        if not data:
            raise RefusedError("the server closed the connection")
        self.begun = self.begun + data if self.begun else data
        if not is_whole(self.begun):
            return False
        self.begun = b""
        return True


def is_whole(answer: bytes) -> bool:
    """Is it all of an answer? RefusedError if that is no success."""
    head = answer.find(_END)
    if head < 0:
        return False
    if answer[9:10] != b"2":
        raise RefusedError(answer[:300].decode(errors="replace"))
    start = answer.find(_LENGTH, 0, head)
    if start < 0:
        raise RefusedError("the answer says no length")
    length = int(answer[start + len(_LENGTH) : answer.find(b"\r", start)])
    return len(answer) >= head + len(_END) + length


@dataclass(slots=True)
class Load:
    """Connections that all send one request."""

    request: bytes
    lines: dict[int, _Line] = field(default_factory=dict)

    def send(self, requests: int) -> float:
        """Send so many requests, as many at once as there are connections; how many were answered a second."""
        with select.epoll() as poll:
            began = time.perf_counter()
            for number, line in self.lines.items():
                poll.register(number, select.EPOLLIN)
                line.connection.send(self.request)
            self._exchange(poll, requests)
            return requests / (time.perf_counter() - began)

    def _exchange(self, poll: select.epoll, requests: int) -> None:
        left, open_requests = requests - len(self.lines), len(self.lines)
        while open_requests:
            ready = poll.poll(_SILENCE)
            if not ready:
                raise RefusedError(f"no answer for {_SILENCE:g} s")
            for number, _ in ready:
                line = self.lines[number]
                if not line.receive():
                    continue
                if left > 0:
                    left -= 1
                    line.connection.send(self.request)
                else:
                    open_requests -= 1


@contextmanager
def connect(target: Target, request: bytes, connections: int) -> Iterator[Load]:
    lines = [_Line(target.connect()) for _ in range(connections)]
    try:
        yield Load(request, {line.connection.fileno(): line for line in lines})
    finally:
        for line in lines:
            line.connection.close()
