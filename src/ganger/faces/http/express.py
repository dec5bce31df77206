"""The short way for a small request: it is served without a task of its own, and without most of what a server does.

A request that is whole when its head is read, alone on its connection and plain in every respect can be handed to its
endpoint at once; the answer comes by a call. Whatever is not clearly in order goes the long way, which knows what to
say about it: so nothing is refused here, and the short way allows nothing that the long one would not.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ganger.core.errors import GangerError
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.reply import Header, Reply

Headers = Mapping[bytes, bytes]
LARGEST: Final = 16 << 10
"""A body that is larger goes the long way."""

_UNUSUAL: Final = frozenset({b"upgrade", b"expect", b"transfer-encoding"})


class _Unheard:
    """Nobody waits for more of a request that is whole."""

    def set(self) -> None:
        return


_UNHEARD: Final = _Unheard()


class _Answered:
    """Stands where the server keeps the request that it answers, for one that is answered."""

    response_complete = True
    message_event = _UNHEARD


ANSWERED: Final = _Answered()


class Ride:
    """A request on the short way. It stands where the server keeps the request that it answers.

    `arrived` is when its head was whole, by the clock of the loop. `send` is called once, with the answer.
    """

    __slots__ = (
        "arrived",
        "body",
        "disconnected",
        "headers",
        "keep_alive",
        "message_event",
        "more_body",
        "response_complete",
        "send",
        "way",
    )

    def __init__(self, way: "Express", headers: Headers, arrived: float, send: "Send") -> None:
        self.way = way
        self.headers = headers
        self.arrived = arrived
        self.send = send
        self.body = b""
        self.keep_alive = self.more_body = True
        self.disconnected = self.response_complete = False
        self.message_event = _UNHEARD

    def tell(self, answer: Reply | GangerError) -> None:
        """Answer the request, whether its client is still there or not."""
        self.send(self, answer)


Send = Callable[[Ride, Reply | GangerError], None]
Serve = Callable[[Grant, Ride], bool]
"""Serve a request, and tell the answer later, once. It neither waits nor raises.

False: it goes the long way, and nothing was done.
"""


class Express(NamedTuple):
    """A short way: where it is, what it needs, and who serves there."""

    path: str
    need: Need
    serve: Serve


def is_usual(headers: Headers) -> bool:
    """Does nothing in the head ask for more than an answer to a small body?"""
    length = headers.get(b"content-length", b"")
    return length.isdigit() and int(length) <= LARGEST and _UNUSUAL.isdisjoint(headers)


def write_answer(reply: Reply, always: list[Header], *, close: bool) -> bytes:
    """A whole answer as it is sent. `always` are headers of every answer of the server."""
    head = [*always, *reply.head()]
    lines = b"".join([b"%b: %b\r\n" % pair for pair in head])
    end = b"connection: close\r\n\r\n" if close else b"\r\n"
    return b"".join((STATUS_LINE[reply.status], lines, end, reply.body))
