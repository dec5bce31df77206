"""Streams over a websocket: the same answers, each piece a message of text; what the client says is not listened to.

A client that does not read is cut off after a while, as one that does not answer pings. Until then no more is written
to it than a buffer holds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from ganger.core.errors import GangerError, NotAuthenticated
from ganger.faces.http.reply import Reply, Streamed

WEBSOCKET: Final = "WEBSOCKET"
"""Stands in the table of routes where others have their method."""

_COMES_BACK: Final = 1012
_NOT_WANTED: Final = 1008
Send = Callable[[Any], Awaitable[None]]


class GuardedSocket(WebSocketsSansIOProtocol):
    """A websocket whose client may leave what is sent unread for so many seconds."""

    patience: float = 30.0
    _stuck: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unstick()
        self._stuck = self.loop.call_later(self.patience, self.transport.abort)

    def resume_writing(self) -> None:
        self._unstick()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unstick()
        super().connection_lost(exc)

    def _unstick(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None


def guard_socket(patience: float) -> type[GuardedSocket]:
    """The protocol with this patience."""
    return type("GuardedSocket", (GuardedSocket,), {"patience": patience})


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
