"""Reading beside the owner: connections of this process that only read, each on a thread while it is used."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import apsw

from ganger.core.errors import StoreClosed
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
        self._idle: deque[apsw.Connection] = deque()
        self._closed = False

    async def read(self, query: Callable[[apsw.Connection], T]) -> T:
        if self._closed:
            raise StoreClosed("the file was closed by this process: open it again")
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._run, query)

    def _run(self, query: Callable[[apsw.Connection], T]) -> T:
        connection = self._take()
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
        self._idle.append(connection)
        return result

    def _take(self) -> apsw.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return open_reader(self._place, self._vfs)

    def close(self) -> None:
        """Wait for the queries that run, then close."""
        self._closed = True
        self._pool.shutdown()
        while self._idle:
            shut(self._idle.pop())

    def abandon(self) -> None:
        """In a forked child: never touch the parent's connections again."""
        for connection in self._idle:
            keep_for_ever(connection)
