"""Requests that wait for something to happen: they end with the client, with its token, and with the server.

Such a request has nobody who hurries it. The client may go without a word, its token may be revoked, the server may be
told to stop: each of them must end the wait, and nothing else may be left of it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ganger.core.errors import GangerError, NotAuthenticated, StoreUnavailable, TooManyRequests
from ganger.faces.http.grants import Grant, Keeper
from ganger.faces.http.request import ClientGone

T = TypeVar("T")


class Visits:
    """Those who wait now, at most so many."""

    def __init__(self, keeper: Keeper, most: int) -> None:
        self._keeper = keeper
        self._most = most
        self._open: dict[asyncio.Future[GangerError], Grant] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self._open)

    async def attend(self, work: Coroutine[Any, Any, T], grant: Grant, gone: "asyncio.Future[None]") -> T:
        """The outcome of the work; ClientGone if the client went first; the error with which it was sent home."""
        if (refusal := self._refusal()) is not None:
            work.close()
            raise refusal
        home: asyncio.Future[GangerError] = asyncio.get_running_loop().create_future()
        self._open[home] = grant
        doing = asyncio.ensure_future(work)
        ends: list[asyncio.Future[Any]] = [doing, gone, home]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            if home.done():
                raise home.result()
            raise ClientGone
        finally:
            del self._open[home]
            await _end(doing)

    def _refusal(self) -> GangerError | None:
        if self._closed:
            return _closing()
        full = len(self._open) >= self._most
        return TooManyRequests(f"{self._most} requests wait already: come back later") if full else None

    def revoke(self) -> None:
        """Send home whose tokens are not good any more."""
        for home, grant in self._open.items():
            if not home.done() and not self._keeper.holds(grant):
                home.set_result(NotAuthenticated("the token was revoked, or has expired"))

    def close(self) -> None:
        """Send everybody home, and let nobody in."""
        self._closed = True
        for home in self._open:
            if not home.done():
                home.set_result(_closing())


def _closing() -> GangerError:
    return StoreUnavailable("the server is stopping; ask again in a moment")


async def _end(task: "asyncio.Future[Any]") -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        # Its error is that of the request, or of nobody: a client that is gone is told nothing.
        task.exception()
