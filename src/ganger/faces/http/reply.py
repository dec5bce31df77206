"""What is sent back: a whole answer, or a stream of pieces."""

from collections.abc import AsyncGenerator
from typing import Any, Final, NamedTuple

import msgspec

JSON: Final = b"application/json"
PROBLEM: Final = b"application/problem+json"
EVENT_STREAM: Final = b"text/event-stream"
TEXT: Final = b"text/plain; charset=utf-8"
BYTES: Final = b"application/octet-stream"
NO_CONTENT: Final = 204
Header = tuple[bytes, bytes]

_SAFE: Final[tuple[Header, ...]] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class Reply(NamedTuple):
    """An answer that is whole."""

    status: int
    body: bytes = b""
    kind: bytes = JSON
    headers: tuple[Header, ...] = ()

    def head(self) -> list[Header]:
        if self.status == NO_CONTENT:
            return [*_SAFE, *self.headers]
        return [(b"content-type", self.kind), (b"content-length", b"%d" % len(self.body)), *_SAFE, *self.headers]


class Streamed(NamedTuple):
    """An answer that comes in pieces, each sent when the one before was taken."""

    pieces: AsyncGenerator[bytes, None]
    kind: bytes = EVENT_STREAM
    headers: tuple[Header, ...] = ()
    status: int = 200

    def head(self) -> list[Header]:
        return [(b"content-type", self.kind), *_SAFE, *self.headers]


Answer = Reply | Streamed

_encoder: Final = msgspec.json.Encoder()


def answer_json(value: Any, status: int = 200) -> Reply:
    return Reply(status, _encoder.encode(value))
