"""A hot standby, from which long lists are read, so that the server that takes the writes need not.

A standby lags. But whoever lists tasks may decide by what he sees: which members of a group to cancel, whether a key is
taken. So a read is done here only when the standby has replayed all that was committed when the read began; it is given
a moment for that, and if it does not get there, the read is done where the truth is. A standby that is gone, or that
breaks a read off because of what it replays, costs one try, and is left alone for a while.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import asyncpg

from ganger.databases.postgres.errors import LOST

T = TypeVar("T")

MOMENT: Final = 0.1
"""Seconds for which it is waited until the standby has caught up."""
_LOOK: Final = 0.005
REST: Final = 10.0
"""Seconds for which one that failed is left alone."""
_CONNECTIONS: Final = 4
_TIMEOUT: Final = 2.0

_REPLAYED: Final = "SELECT coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, true)"


class Behind(Exception):
    """The standby cannot serve the read: it has not caught up, or it is gone."""


class Standby:
    """A pool of connections to a server that only reads."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        self._url = url
        self._settings = {**settings, "timeout": _TIMEOUT}
        self._pool: Any = None
        self._rests_until = 0.0

    async def read(self, mark: str, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run reads that see all up to that mark; Behind if that cannot be had."""
        if asyncio.get_running_loop().time() < self._rests_until:
            raise Behind
        try:
            async with (await self._opened()).acquire() as connection:
                await _catch_up(connection, mark)
                return await work(connection)
        except (*LOST, asyncpg.PostgresError) as error:
            self._rests_until = asyncio.get_running_loop().time() + REST
            raise Behind from error

    async def _opened(self) -> Any:
        if self._pool is None:
            self._pool = await asyncpg.create_pool(self._url, min_size=0, max_size=_CONNECTIONS, **self._settings)
        return self._pool

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.terminate()


async def _catch_up(connection: Any, mark: str) -> None:
    end = asyncio.get_running_loop().time() + MOMENT
    while not await connection.fetchval(_REPLAYED, mark):
        if asyncio.get_running_loop().time() > end:
            raise Behind
        await asyncio.sleep(_LOOK)
