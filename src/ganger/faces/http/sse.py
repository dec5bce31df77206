"""Server-sent events: how they are written, and where a client that comes back goes on."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from ganger.core.errors import BadCursor
from ganger.core.ids import Position
from ganger.faces.http.request import Request

BEAT: Final = b": here\n\n"
GREETING: Final = b"retry: 1000\n\n"
"""A client whose connection ends comes back after a second."""

LAST_SEEN: Final = b"last-event-id"
_DIGITS: Final = 19


def write_event(name: str, data: bytes, number: int | None = None) -> bytes:
    """One event of the store. JSON has no line breaks, so neither has `data`."""
    return write_named(name, data, None if number is None else str(number))


def write_named(name: str, data: bytes, place: str | None) -> bytes:
    """One event; `place` is what a client that comes back says that it has seen."""
    told = b"" if place is None else b"id: %b\n" % place.encode()
    return b"%bevent: %b\ndata: %b\n\n" % (told, name.encode(), data)


def find_place(request: Request) -> Position | None:
    """Behind which event the client wants to go on: `Last-Event-ID`, which its browser sends by itself, or `after`."""
    text = request.headers.get(LAST_SEEN, b"").decode("latin-1") or request.query.get("after")
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
        raise BadCursor(f"{text!r:.80} is no position; give the id of the last event that was seen", field="after")
    return Position(int(text))


async def keep_alive(pieces: AsyncGenerator[bytes, None], beat: float) -> AsyncGenerator[bytes, None]:
    """The pieces, and a sign of life whenever none came for a while: who is gone without a word is found out by it."""
    yield GREETING
    async with aclosing(pieces):
        coming = asyncio.ensure_future(anext(pieces))
        try:
            while True:
                await asyncio.wait([coming], timeout=beat)
                if not coming.done():
                    yield BEAT
                    continue
                try:
                    piece = coming.result()
                except StopAsyncIteration:
                    return
                coming = asyncio.ensure_future(anext(pieces))
                yield piece
        finally:
            coming.cancel()
            await asyncio.wait([coming])
