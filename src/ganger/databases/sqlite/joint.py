"""A small SQLite file that every process writes by itself: for what must go on when one of them is stopped.

A shared file (`SharedFile`) has one owner that commits for all, which is fast, and while the owner is stopped nobody
commits. Locks are there for the very case that a process is stopped, so their file has no owner: each process takes
SQLite's own lock for the milliseconds of its transaction. One that is stopped inside of these keeps the others waiting;
they are told StoreUnavailable after a while, and nothing is lost.

Whoever listens is told by a look at the file's change counter, twenty times a second while anybody does.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import apsw

from ganger.core.clock import Clock
from ganger.core.errors import ForkedHandle, GangerError, StoreClosed, StoreNotADatabase
from ganger.databases.listeners import Listeners, Told
from ganger.databases.migrations import Migration
from ganger.databases.sqlite.connecting import connect, shut
from ganger.databases.sqlite.errors import breaks_file, translate
from ganger.databases.sqlite.migrate import migrate
from ganger.databases.sqlite.place import Host, LocalHost, Place, explain, refuse_place
from ganger.databases.sqlite.versions import mark_of
from ganger.databases.statements import load_queries
from ganger.runtime.disk import sync_folder
from ganger.runtime.threads import run_whole

T = TypeVar("T")
Work = Callable[[apsw.Connection], T]
_LOOK: Final = 0.05
_PLAIN: Final = "unix"
_PAGES: Final = 1_000


class JointFile:
    """One process's handle on the file. A forked child opens its own."""

    def __init__(self, place: Place, migrations: Sequence[Migration], clock: Clock, application: str) -> None:
        self._place = place
        self._migrations = migrations
        self._clock = clock
        self._mark = mark_of(application)
        self._pid = os.getpid()
        self._turn = asyncio.Lock()
        self._connection: apsw.Connection | None = None
        self._listeners = Listeners(asyncio.get_running_loop())
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        migrations: Sequence[Migration],
        clock: Clock,
        application: str,
        host: Host | None = None,
    ) -> "JointFile":
        """Open the file, which is made and brought up to date if need be.

        Raises StoreMissingFolder, StoreOnNetworkFilesystem, StoreReadOnly, StoreNotADatabase, MigrationChanged,
        StoreFull, StoreBroken, StoreUnavailable.
        """
        place = Place.of(path)
        refuse_place(place, host or LocalHost())
        file = cls(place, migrations, clock, application)
        await run_whole(file._connect)
        return file

    async def read(self, work: Work[T]) -> T:
        """Run a query on a thread; it sees every commit that was acknowledged before."""
        return await self._run(work, "reading")

    async def change(self, work: Work[T]) -> T:
        """Run a transaction on a thread: atomic, and durable when this returns. What `work` raises takes it back.

        Raises StoreUnavailable if another process keeps the file for too long: then nothing was done. StoreBroken:
        the disk failed, and it is unknown.
        """
        return await self._run(lambda connection: _transact(connection, work), "writing")

    def listen(self, topics: Iterable[str], told: Told) -> Callable[[], None]:
        """Have `told` called whenever the file was changed, by anybody."""
        remove = self._listeners.add(topics, told)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name=f"look at {self._place.database.name}")
        return remove

    async def close(self) -> None:
        """Idempotent."""
        self._closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                await run_whole(shut, connection)

    async def _run(self, work: Work[T], doing: str) -> T:
        if self._closed:
            raise StoreClosed("the file is closed: open it again")
        if os.getpid() != self._pid:
            raise ForkedHandle(f"this handle belongs to process {self._pid}: open the file again after a fork")
        async with self._turn:
            return await run_whole(self._do, work, doing)

    def _do(self, work: Work[T], doing: str) -> T:
        connection = self._connection or self._connect()
        try:
            return work(connection)
        except apsw.Error as error:
            told = translate(error, doing, connection)
            if breaks_file(told):
                # A connection that met an error of the disk is never asked again.
                shut(connection)
                self._connection = None
            raise told from error

    def _connect(self) -> apsw.Connection:
        _create_private(self._place)
        connection = connect(self._place, _PLAIN, create=True)
        try:
            self._set_up(connection)
        except apsw.Error as error:
            shut(connection)
            raise translate(error, "opening", connection) from error
        except BaseException:
            shut(connection)
            raise
        self._connection = connection
        return connection

    def _set_up(self, connection: apsw.Connection) -> None:
        queries = load_queries("ganger.databases.sqlite", "queries")
        found = connection.pragma("application_id")
        tables = connection.execute(queries["list_tables"]).fetchall()
        if found != self._mark and (found or tables):
            raise StoreNotADatabase(
                f"{self._place.database} is the database of another program: name another file",
                path=str(self._place.database),
            )
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "FULL")
        connection.wal_autocheckpoint(_PAGES)
        _transact(connection, lambda _: self._migrate(connection, queries))
        sync_folder(self._place.folder)

    def _migrate(self, connection: apsw.Connection, queries: dict[str, str]) -> None:
        connection.execute(queries["create_migration"])
        migrate(connection, self._migrations, queries, self._clock.wall())
        connection.pragma("application_id", self._mark)

    async def _look(self) -> None:
        """Tell those who listen when the file has changed, as long as there are any."""
        seen: object = None
        reader = await run_whole(connect, self._place, _PLAIN, create=False)
        try:
            while topics := self._listeners.topics():
                # A page of memory is read, and no lock is waited for.
                with suppress(apsw.Error, GangerError):
                    found = reader.pragma("data_version")
                    if found != seen:
                        self._listeners.tell(topics)
                    seen = found
                await asyncio.sleep(_LOOK)
        finally:
            shut(reader)


def _transact(connection: apsw.Connection, work: Work[T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _create_private(place: Place) -> None:
    """A new file is for this user alone; its log gets the same mode."""
    try:
        os.close(os.open(place.database, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise explain(error, place) from error
