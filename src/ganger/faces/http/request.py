"""A request as an endpoint sees it: who asks, for what, with which parameters, and a body that is bounded."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl

from ganger.core.errors import BadInput, PayloadTooLarge, TooSlow
from ganger.faces.http.grants import Grant
from ganger.faces.http.limits import HttpLimits
from ganger.faces.http.sockets import WEBSOCKET

Receive = Callable[[], Awaitable[Any]]
_MOST_PARAMETERS: Final = 100
_DRAINED: Final = 1 << 20
_DRAIN_SECONDS: Final = 0.5
ARRIVED: Final = "ganger.arrived"
"""In the scope of a request: when its head was whole, by the clock of the loop."""
LET_IN: Final = "ganger.let_in"
"""In the scope of a request that came to a server that is behind, which had room for it."""
WHOLE: Final = "ganger.whole"
"""In the scope of a request all of which has arrived: nothing of it has to be waited for."""


class ClientGone(Exception):
    """Nobody waits for the answer any more."""


class Request:
    """One request. `values` are the parts of the path that the route leaves open."""

    __slots__ = ("_done", "_limits", "_receive", "_scope", "_whole", "grant", "headers", "method", "query", "values")

    def __init__(self, scope: Mapping[str, Any], receive: Receive, limits: HttpLimits) -> None:
        self.method: str = scope["method"] if scope["type"] == "http" else WEBSOCKET
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.values: dict[str, str] = {}
        self.query: dict[str, str] = {}
        self.grant: Grant = Grant("", "", frozenset())
        self._scope = scope
        self._receive = receive
        self._limits = limits
        self._whole: bytes | None = None
        self._done = self.headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in self.headers

    @property
    def unread(self) -> bool:
        """May the client still be sending a body that nobody has read?"""
        return not self._done and WHOLE not in self._scope

    async def drain(self) -> None:
        """Take in the rest of a small body: a connection that is closed on unread bytes takes its answer with it."""
        left = _DRAINED
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self._done and left > 0:
                    message = await self._receive()
                    left -= len(message.get("body", b""))
                    self._done = not message.get("more_body", False)

    async def load(self) -> None:
        """Read the body ahead: whoever watches for the client's end from now on would take it away."""
        if not self._done:
            self._whole = await self.body()

    async def body(self) -> bytes:
        """All of the body; PayloadTooLarge or TooSlow if it is more, or slower, than the limits allow."""
        if self._whole is not None:
            return self._whole
        said = self.headers.get(b"content-length", b"0")
        if said.isdigit() and int(said) > self._limits.body:
            raise _too_large(self._limits.body)
        if WHOLE in self._scope:
            return await self._read()
        try:
            async with asyncio.timeout(self._limits.body_time):
                return await self._read()
        except TimeoutError:
            raise TooSlow(f"the body did not arrive within {self._limits.body_time:g} s") from None

    async def pieces(self, most: int, patience: float) -> AsyncGenerator[bytes, None]:
        """The body as it comes, never whole. PayloadTooLarge beyond `most`; TooSlow if nothing comes for so long."""
        size = 0
        while not self._done:
            try:
                async with asyncio.timeout(patience):
                    message = await self._receive()
            except TimeoutError:
                raise TooSlow(f"nothing of the body arrived for {patience:g} s") from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            size += len(message["body"])
            if size > most:
                raise _too_large(most)
            self._done = not message["more_body"]
            yield message["body"]

    async def _read(self) -> bytes:
        pieces, size = [], 0
        while not self._done:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            pieces.append(message["body"])
            size += len(message["body"])
            if size > self._limits.body:
                raise _too_large(self._limits.body)
            self._done = not message["more_body"]
        return b"".join(pieces)


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
