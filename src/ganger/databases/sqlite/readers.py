"""Reading beside the owner: connections of this process that only read, each on a thread while it is used."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import apsw

from ganger.core.errors import StoreClosed
from ganger.databases.sqlite.admitting import Identity, identify, tell_replaced
from ganger.databases.sqlite.connecting import open_reader, shut
from ganger.databases.sqlite.errors import translate
from ganger.databases.sqlite.fork import keep_for_ever
from ganger.databases.sqlite.place import Place

T = TypeVar("T")


class Readers:
    """A few threads with a few connections. A query sees one snapshot, with every commit acknowledged before it."""

    def __init__(self, place: Place, vfs: str | None, count: int) -> None:
        self._place = place
        self._vfs = vfs
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=f"ganger-read-{place.database.name}")
        self._idle: deque[tuple[apsw.Connection, Identity | None]] = deque()
        self._closed = False

    async def read(self, query: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise StoreClosed("the file was closed by this process: open it again")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, query)

    def _run(self, query: Callable[[apsw.Connection], T]) -> T:
        connection, identity = self._take()
        try:
            connection.execute("BEGIN")
            result = query(connection)
            connection.execute("COMMIT")
        except apsw.Error as error:
            shut(connection)
            raise translate(error, "reading") from error
        except BaseException:
            shut(connection)
            raise
        self._idle.append((connection, identity))
        return result

    def _take(self) -> tuple[apsw.Connection, Identity | None]:
        """A connection to the file that has the name now: another one may have been put in its place."""
        identity = identify(self._place.database)
        while self._idle:
            found = self._take_idle()
            if found is not None and found[1] == identity:
                return found
            if found is not None:
                shut(found[0])
        if identity is None:
            raise tell_replaced(self._place.database)
        return open_reader(self._place, self._vfs), identity

    def _take_idle(self) -> tuple[apsw.Connection, Identity | None] | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def drop_idle(self) -> None:
        """Close what nobody uses at the moment: the file may be another now."""
        while (found := self._take_idle()) is not None:
            shut(found[0])

    def close(self) -> None:
        """Wait for the queries that run, then close."""
        self._closed = True
        self._pool.shutdown()
        self.drop_idle()

    def abandon(self) -> None:
        """In a forked child: never touch the parent's connections again."""
        for connection, _ in self._idle:
            keep_for_ever(connection)
