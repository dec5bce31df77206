"""A request as an endpoint sees it: who asks, for what, with which parameters, and a body that is bounded.

The connection puts in what arrives, the endpoint takes it out. What nobody has taken yet is bounded too: beyond that
the connection reads no more, and its client waits.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qsl

from ganger.core.errors import BadInput, PayloadTooLarge, TooSlow
from ganger.faces.http.grants import Grant
from ganger.faces.http.limits import HttpLimits

WEBSOCKET: Final = "WEBSOCKET"
"""The method of a request that asks for a websocket; stands in the table of routes where others have theirs."""

_MOST_PARAMETERS: Final = 100
_DRAINED: Final = 1 << 20
_DRAIN_SECONDS: Final = 0.5
_WAITING: Final = 1 << 16
"""So many bytes wait for the endpoint before nothing more is read."""


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Flow(Protocol):
    """What a request asks of its connection."""

    def pause(self) -> None:
        """Read no more for now."""

    def resume(self) -> None:
        """Read on."""

    def invite(self) -> None:
        """Say that the body is wanted, if the client waits to hear that."""


class Head(NamedTuple):
    """What stands before the body. `arrived` is when it was whole, by the clock of the loop."""

    method: str
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]
    peer: str
    arrived: float
    keep_alive: bool = True
    chunked: bool = True
    """May the answer be sent in chunks?"""


class Request:
    """One request. `values` are the parts of the path that the route leaves open."""

    __slots__ = (
        "_ended", "_flow", "_gone", "_limits", "_lost", "_news", "_paused", "_pieces", "_size", "_whole",
        "grant", "head", "headers", "let_in", "method", "query", "values",
    )  # fmt: skip

    def __init__(self, head: Head, limits: HttpLimits, flow: Flow) -> None:
        self.head = head
        self.method = head.method
        self.headers = head.headers
        self.values: dict[str, str] = {}
        self.query: dict[str, str] = {}
        self.grant: Grant = Grant("", "", frozenset())
        self.let_in = False
        """It came to a server that is behind, which had room for it."""
        self._limits = limits
        self._flow = flow
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = self._lost = self._paused = False
        self._news: asyncio.Future[None] | None = None
        self._gone: asyncio.Future[None] | None = None
        self._whole: bytes | None = None

    def feed(self, data: bytes) -> None:
        """More of the body has come."""
        self._pieces.append(data)
        self._size += len(data)
        if self._size > _WAITING and not self._paused:
            self._paused = True
            self._flow.pause()
        self._tell()

    def end(self) -> None:
        """All of it has come."""
        self._ended = True
        self._tell()

    def lose(self) -> None:
        """The client is gone."""
        self._lost = True
        self._tell()
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    @property
    def gone(self) -> "asyncio.Future[None]":
        """Is done when the client has gone."""
        if self._gone is None:
            self._gone = asyncio.get_running_loop().create_future()
            if self._lost:
                self._gone.set_result(None)
        return self._gone

    @property
    def unread(self) -> bool:
        """May the client still be sending a body that nobody has read?"""
        return not self._ended

    async def _next(self) -> bytes:
        """The next piece of the body; nothing when all of it was there. ClientGone."""
        if not self._pieces and not self._ended:
            self._flow.invite()
        while not self._pieces:
            if self._ended:
                return b""
            if self._lost:
                raise ClientGone
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        piece = self._pieces.popleft()
        self._size -= len(piece)
        if self._paused and self._size <= _WAITING // 2:
            self._paused = False
            self._flow.resume()
        return piece

    async def drain(self) -> None:
        """Take in the rest of a small body: a connection that is closed on unread bytes takes its answer with it."""
        left = _DRAINED
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while left > 0 and (piece := await self._next()):
                    left -= len(piece)

    async def load(self) -> None:
        """Read the body ahead: a client that waits is only watched from then on."""
        self._whole = await self.body()

    async def body(self) -> bytes:
        """All of the body; PayloadTooLarge or TooSlow if it is more, or slower, than the limits allow."""
        if self._whole is not None:
            return self._whole
        said = self.headers.get(b"content-length", b"0")
        if said.isdigit() and int(said) > self._limits.body:
            raise _too_large(self._limits.body)
        if self._ended:
            return await self._join()
        try:
            async with asyncio.timeout(self._limits.body_time):
                return await self._join()
        except TimeoutError:
            raise TooSlow(f"the body did not arrive within {self._limits.body_time:g} s") from None

    async def _join(self) -> bytes:
        pieces, size = [], 0
        while piece := await self._next():
            pieces.append(piece)
            size += len(piece)
            if size > self._limits.body:
                raise _too_large(self._limits.body)
        return b"".join(pieces)

    async def pieces(self, most: int, patience: float) -> AsyncGenerator[bytes, None]:
        """The body as it comes, never whole. PayloadTooLarge beyond `most`; TooSlow if nothing comes for so long."""
        size = 0
        while True:
            try:
                async with asyncio.timeout(patience):
                    piece = await self._next()
            except TimeoutError:
                raise TooSlow(f"nothing of the body arrived for {patience:g} s") from None
            if not piece:
                return
            size += len(piece)
            if size > most:
                raise _too_large(most)
            yield piece


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body has more than {limit} bytes: send it in several requests", limit=limit)


def read_query(raw: bytes, known: frozenset[str]) -> dict[str, str]:
    """The parameters of an address. One that is not known or given twice is refused: it would do nothing, silently."""
    if not raw:
        return {}
    try:
        pairs = parse_qsl(raw.decode(), True, errors="strict", max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise BadInput("the parameters behind the ? are not UTF-8, or are too many") from None
    found = dict(pairs)
    if unknown := sorted(set(found) - known):
        may = f"known are {', '.join(sorted(known))}" if known else "there are none here"
        raise BadInput(f"the parameter {unknown[0]!r:.80} is unknown; {may}", field=unknown[0][:200])
    if len(found) < len(pairs):
        raise BadInput("a parameter is given twice; write several values with commas between them")
    return found
