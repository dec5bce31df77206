"""A PostgreSQL database: a pool of connections, and transactions that run until their outcome is known.

What can go wrong with a transaction over a network, and what is done about it:

- two of them are in each other's way (a deadlock, a serialization failure): nothing was stored, it runs again;
- the connection breaks before the commit was sent: nothing was stored, it runs again when the server is back;
- the connection breaks while the commit is under way: it may be stored or not. A receipt tells (see `receipts.py`), and
  a new connection looks for it. So a caller is told the truth where the server comes back in time, and
  `StoreUnavailable`, which means "unknown", where it does not;
- the caller is cancelled: what was not committed is rolled back; a commit under way is waited for.

A step that is one statement is its own transaction, and that statement its commit: if its reply is lost and the receipt
is there, its result is read from what it stored.

Steps that only touch rows of their own run side by side (they share a lock); a step that weaves many rows together runs
alone. Which of the two it is often shows only while it runs: it then raises `NeedsToRunAlone`, is rolled back, and runs
again with the lock for itself.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from ganger.core.clock import Clock, Entropy
from ganger.core.errors import StoreClosed
from ganger.databases.listeners import Listeners, Told
from ganger.databases.migrations import Migration
from ganger.databases.postgres.address import Address, read_address
from ganger.databases.postgres.errors import CONFLICTS, LOST, translate, unavailable
from ganger.databases.postgres.migrate import migrate
from ganger.databases.postgres.receipts import Writer, Writers, is_stored
from ganger.databases.postgres.session import NeedsToRunAlone, RunAgain, Session
from ganger.databases.postgres.standby import Behind, Standby
from ganger.databases.postgres.waking import Crier, Ear, Pulse
from ganger.runtime.telemetry import SILENT, Telemetry

T = TypeVar("T")

CONNECTIONS: Final = 8
PATIENCE: Final = 10.0
"""Seconds for which a transaction waits for a server that is gone."""
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_COMMAND_TIMEOUT: Final = 60.0
_CONNECT_TIMEOUT: Final = 10.0
_STATEMENTS: Final = 500
UNSEALED: Final = "GA001"
"""How a statement says that there is no row for its receipt."""
STRAYED: Final = "GA002"
"""How a statement says that what it went by is not so any more."""


_SETTINGS: Final = {
    "application_name": "ganger",
    "synchronous_commit": "on",
    "idle_in_transaction_session_timeout": str(round(_COMMAND_TIMEOUT * 1_000)),
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_memoize": "off",
}
"""Every statement has its index, and a plan that is made once. A table that was empty when the plan was made, or that
nobody has counted since it grew, must not lead to another one."""


class NotCommitted(ConnectionError):
    """The connection broke while a commit was under way, and the server says that nothing was stored."""


class Patience:
    """Growing pauses between attempts, as long as the server may be gone; with chance, so that not all come at once."""

    def __init__(self, seconds: float, entropy: Entropy) -> None:
        self._clock = asyncio.get_running_loop()
        self._end = self._clock.time() + seconds
        self._pause = _FIRST_PAUSE
        self._entropy = entropy

    async def wait(self, error: Exception, doing: str) -> None:
        """One pause; StoreUnavailable when it has been enough."""
        if self._clock.time() >= self._end:
            raise unavailable(error, doing) from error
        await asyncio.sleep(self._pause * (0.5 + self._entropy.uniform()))
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


class Database:
    """A schema in a database, shared by any number of processes."""

    def __init__(self, address: Address, entropy: Entropy, patience: float = PATIENCE) -> None:
        self.address = address
        self._entropy = entropy
        self._patience = patience
        self._pool: Any = None
        self._listeners = Listeners(asyncio.get_running_loop())
        self._writers = Writers(entropy)
        self._services: tuple[Crier, Ear] | None = None
        self._standby: Standby | None = None
        self._lock = address.lock("steps")
        self._begin = {
            False: f"BEGIN; SELECT pg_advisory_xact_lock_shared({self._lock})",
            True: f"BEGIN; SELECT pg_advisory_xact_lock({self._lock})",
        }

    @classmethod
    async def open(
        cls,
        url: str,
        migrations: Sequence[Migration],
        clock: Clock,
        entropy: Entropy,
        *,
        pulse: Pulse,
        telemetry: Telemetry = SILENT,
        connections: int = CONNECTIONS,
        patience: float = PATIENCE,
        read_url: str | None = None,
    ) -> "Database":
        database = cls(read_address(url), entropy, patience)
        if read_url is not None:
            database._standby = Standby(read_address(read_url).url, database._settings())
        try:
            await database._open_pool(connections)
            async with database._pool.acquire() as connection:
                await migrate(connection, database.address, migrations, clock.wall())
        except Exception as error:
            await database.close()
            raise translate(error, "opening the database") from error
        await database._start_services(pulse, telemetry)
        return database

    async def _open_pool(self, connections: int) -> None:
        self._pool = await asyncpg.create_pool(
            self.address.url, min_size=0, max_size=connections, reset=_keep_as_it_is, **self._settings()
        )

    def _settings(self) -> dict[str, Any]:
        return {
            "command_timeout": _COMMAND_TIMEOUT,
            "timeout": _CONNECT_TIMEOUT,
            "statement_cache_size": _STATEMENTS,
            "max_cached_statement_lifetime": 0,
            "server_settings": {"search_path": self.address.schema, **_SETTINGS},
        }

    async def _start_services(self, pulse: Pulse, telemetry: Telemetry) -> None:
        name, channel = self._entropy.token(8).hex(), self.address.channel
        crier = Crier(self._connect, channel, name, telemetry)
        ear = Ear(self._connect, channel, name, listeners=self._listeners, pulse=pulse, telemetry=telemetry)
        self._services = crier, ear
        await crier.start()
        await ear.start()

    async def _connect(self) -> Any:
        return await asyncpg.connect(self.address.url, **self._settings())

    async def close(self) -> None:
        for service in self._services or ():
            await service.stop()
        if self._standby is not None:
            await self._standby.close()
        pool, self._pool = self._pool, None
        if pool is None:
            return
        with contextlib.suppress(*LOST, asyncpg.PostgresError):
            # A row that stays is taken away by another process, days later.
            async with pool.acquire() as connection:
                await self._writers.forget(connection)
        await pool.close()

    def listen(self, topics: Iterable[str], told: Told) -> Callable[[], None]:
        return self._listeners.add(topics, told)

    async def read(self, work: Callable[[Any], Awaitable[T]], doing: str) -> T:
        """Run reads; each of them sees what was committed before it began."""
        patience = Patience(self._patience, self._entropy)
        while True:
            try:
                async with self._connected() as connection:
                    return await work(connection)
            except LOST as error:
                await patience.wait(error, doing)
            except Exception as error:
                raise translate(error, doing) from error

    async def read_aside(self, work: Callable[[Any], Awaitable[T]], doing: str) -> T:
        """As `read`, on the standby where there is one that has caught up with what is committed now."""
        if self._standby is not None:
            mark = await self.read(_find_mark, doing)
            with contextlib.suppress(Behind):
                return await self._standby.read(mark, work)
        return await self.read(work, doing)

    async def transact(self, work: Callable[[Session], Awaitable[T]], doing: str, alone: bool = False) -> T:
        """Run a step in a transaction until it is committed, or refused, or nobody can tell.

        `work` may run several times and must not keep what it did: what is to stay goes into `session.committed`.
        """
        try:
            return await self._insist(lambda: self._attempt(work, alone), doing)
        except NeedsToRunAlone:
            return await self._insist(lambda: self._attempt(work, True), doing)

    async def _insist(self, attempt: Callable[[], Awaitable[T]], doing: str) -> T:
        """Try until it is done, or refused, or nobody can tell."""
        patience = Patience(self._patience, self._entropy)
        while True:
            try:
                return await attempt()
            except RunAgain:
                continue
            except NeedsToRunAlone:
                raise
            except (*LOST, *CONFLICTS) as error:
                await patience.wait(error, doing)
            except Exception as error:
                raise translate(error, doing) from error

    async def transact_at_once(
        self, work: Callable[[Session], Awaitable[T]], recall: Callable[[Session], Awaitable[T]], doing: str
    ) -> T | None:
        """Run a step that is one statement, and so its own transaction; None if what it went by is not so any more.

        The statement takes the lock, shared, and leaves the receipt, unless it writes nothing. `recall` gives the
        result of one that was stored and whose reply was lost, by a connection of its own. Both may run several times.
        """

        async def attempt() -> T | None:
            async with self._lent() as session:
                return await _see_through(self._run_at_once(session, work, recall))

        return await self._insist(attempt, doing)

    async def _run_at_once(
        self, session: Session, work: Callable[[Session], Awaitable[T]], recall: Callable[[Session], Awaitable[T]]
    ) -> T | None:
        async def look(connection: Any) -> T:
            session.connection = connection
            return await recall(session)

        try:
            result = await work(session)
        except LOST as error:
            if not await self._is_stored(session.writer):
                raise NotCommitted("the connection was lost before the step was stored") from error
            result = await self._ask_anew(look)
        except asyncpg.PostgresError as error:
            if error.sqlstate == STRAYED:
                return None
            _check_receipt(session, error)
            raise
        self._tell(session)
        return result

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        if self._pool is None:
            raise StoreClosed("the store is closed: open it again")
        pool, connection = self._pool, await self._pool.acquire()
        try:
            yield connection
        finally:
            # What was done with it is done, whatever becomes of the connection.
            with contextlib.suppress(*LOST):
                await pool.release(connection)

    @contextlib.asynccontextmanager
    async def _lent(self, alone: bool = False) -> AsyncIterator[Session]:
        async with self._connected() as connection:
            writer = await self._writers.lend(connection)
            try:
                yield Session(connection, alone, writer, self._lock)
            finally:
                self._writers.give_back(writer)

    async def _attempt(self, work: Callable[[Session], Awaitable[T]], alone: bool) -> T:
        async with self._lent(alone) as session:
            return await self._run(session, work)

    async def _run(self, session: Session, work: Callable[[Session], Awaitable[T]]) -> T:
        try:
            await session.connection.execute(self._begin[session.alone])
            result = await work(session)
        except BaseException as error:
            await _roll_back(session.connection)
            _check_receipt(session, error)
            raise
        await _see_through(self._commit(session))
        return result

    async def _commit(self, session: Session) -> None:
        try:
            await session.connection.execute(f"{session.closing}; COMMIT" if session.closing else "COMMIT")
        except LOST as error:
            if not session.sealed or not await self._is_stored(session.writer):
                raise NotCommitted("the connection was lost before the commit") from error
        except asyncpg.PostgresError as error:
            await _roll_back(session.connection)
            _check_receipt(session, error)
            raise
        self._tell(session)

    async def _is_stored(self, writer: Writer) -> bool:
        """The reply to a commit was lost: look for its receipt."""
        return await self._ask_anew(lambda connection: is_stored(connection, writer))

    async def _ask_anew(self, ask: Callable[[Any], Awaitable[T]]) -> T:
        """By a connection apart: those of the pool may all be held by steps that wait for such an answer."""
        patience = Patience(self._patience, self._entropy)
        while True:
            try:
                connection = await self._connect()
                try:
                    return await ask(connection)
                finally:
                    connection.terminate()
            except LOST as error:
                await patience.wait(error, "committing")

    def _tell(self, session: Session) -> None:
        for done in session.committed:
            done()
        self._listeners.tell(session.topics)
        if self._services is not None:
            self._services[0].cry(session.topics)


def _check_receipt(session: Session, error: BaseException) -> None:
    """If it failed because the row for its receipt was taken away, it runs again with another."""
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate == UNSEALED:
        session.writer.gone = True
        raise RunAgain from error


async def _find_mark(connection: Any) -> str:
    """How far the log of the server is: whoever has replayed so much has all that is committed."""
    mark: str = await connection.fetchval("SELECT pg_current_wal_lsn()::text")
    return mark


async def _keep_as_it_is(_connection: Any) -> None:
    """A connection that comes back has nothing to be cleaned: every transaction ended, and settings are local."""


async def _see_through(commit: Coroutine[Any, Any, T]) -> T:
    """Wait for a commit that is under way, also when the one who waits is cancelled meanwhile."""
    running = asyncio.ensure_future(commit)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


async def _roll_back(connection: Any) -> None:
    """End what was begun. A connection that cannot even do that is thrown away, which ends it too."""
    try:
        await asyncio.shield(connection.execute("ROLLBACK"))
    except (*LOST, asyncpg.PostgresError):
        # One that the pool has taken back already is not ours to end.
        with contextlib.suppress(asyncpg.InterfaceError):
            connection.terminate()
