"""Streams over a websocket: the same answers, each piece a message of text; what the client says is not listened to."""

import asyncio
from contextlib import aclosing, suppress
from typing import Final

from ganger.core.errors import GangerError, NotAuthenticated
from ganger.faces.http.grants import Grant
from ganger.faces.http.reply import Streamed
from ganger.faces.http.request import ClientGone
from ganger.faces.http.streams import StreamEndpoint, StreamSocket
from ganger.faces.http.visits import Visits

_COMES_BACK: Final = 1012
_NOT_WANTED: Final = 1008


def tell_messages(reply: Streamed, grant: Grant, visits: Visits) -> StreamEndpoint:
    """Who sends the pieces of an answer to a websocket."""

    async def serve(socket: StreamSocket) -> None:
        gone = asyncio.ensure_future(_overhear(socket))
        try:
            await visits.attend(_send(reply, socket), grant, gone)
            socket.close(_COMES_BACK, "")
        except GangerError as error:
            # For good, because the token is not good any more, or so that the client comes back.
            socket.close(_NOT_WANTED if isinstance(error, NotAuthenticated) else _COMES_BACK, error.code)
        finally:
            gone.cancel()

    return serve


async def _send(reply: Streamed, socket: StreamSocket) -> None:
    async with aclosing(reply.pieces) as pieces:
        async for piece in pieces:
            await socket.send_text(piece)


async def _overhear(socket: StreamSocket) -> None:
    """Returns when the client has gone; whatever else it sends is dropped."""
    with suppress(ClientGone):
        while await socket.receive() is not None:
            async for _ in socket.pieces():
                pass
