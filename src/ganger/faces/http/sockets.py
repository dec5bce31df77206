"""Streams over a websocket: the same answers, each piece a message of text; what the client says is not listened to.

A client that does not read does not answer pings either: the server gives it up after two intervals. Until then no
more is written to it than a buffer holds.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

from ganger.core.errors import GangerError, NotAuthenticated
from ganger.faces.http.reply import Reply, Streamed

WEBSOCKET: Final = "WEBSOCKET"
"""Stands in the table of routes where others have their method."""

_COMES_BACK: Final = 1012
_NOT_WANTED: Final = 1008
Send = Callable[[Any], Awaitable[None]]


async def deny(reply: Reply, send: Send) -> None:
    """Answer in place of a websocket."""
    await send({"type": "websocket.http.response.start", "status": reply.status, "headers": reply.head()})
    await send({"type": "websocket.http.response.body", "body": reply.body})


async def send_messages(reply: Streamed, send: Send) -> None:
    async with aclosing(reply.pieces) as pieces:
        async for piece in pieces:
            await send({"type": "websocket.send", "text": piece.decode()})


async def say_goodbye(send: Send, error: GangerError | None) -> None:
    """Close: for good, because the token is not good any more, or so that the client comes back."""
    code = _NOT_WANTED if isinstance(error, NotAuthenticated) else _COMES_BACK
    await send({"type": "websocket.close", "code": code, "reason": "" if error is None else error.code})
