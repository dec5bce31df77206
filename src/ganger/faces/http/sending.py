"""An answer as it goes out."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

from ganger.faces.http.reply import Header, Reply

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"

_LINES: Final = {int(status): f"HTTP/1.1 {int(status)} {status.phrase}\r\n".encode() for status in HTTPStatus}
_CLOSE: Final = b"connection: close\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"


def write_head(
    status: int, headers: Iterable[Header], date: bytes = b"", *, close: bool, chunked: bool = False
) -> bytes:
    """All that stands before the body. `date` is that header's line, if there is one."""
    lines = [_LINES[status], date, *(b"%b: %b\r\n" % pair for pair in headers)]
    if close:
        lines.append(_CLOSE)
    if chunked:
        lines.append(_CHUNKED)
    lines.append(b"\r\n")
    return b"".join(lines)


def write_reply(reply: Reply, date: bytes = b"", *, close: bool, bodiless: bool = False) -> bytes:
    """A whole answer; to the method HEAD one without a body."""
    head = write_head(reply.status, reply.head(), date, close=close)
    return head if bodiless else head + reply.body


def write_chunk(piece: bytes) -> tuple[bytes, bytes, bytes]:
    """A piece of an answer whose length nobody knows, in parts: to join what is large would be to copy it."""
    return b"%x\r\n" % len(piece), piece, b"\r\n"
