"""A small application on a database, for tests: two rows that are counted up, each step with a receipt."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from ganger.databases.postgres import Database, Migration, Session
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

MADE = Migration(
    1, "made", "CREATE TABLE counter (id integer PRIMARY KEY, n integer); INSERT INTO counter VALUES (1, 0), (2, 0)"
)
PULSE = "SELECT coalesce(sum(n), 0)::bigint FROM counter"
PATIENCE = 60.0


@asynccontextmanager
async def opened(url: str, *migrations: Migration, patience: float = PATIENCE) -> AsyncIterator[Database]:
    async def pulse(connection: Any) -> tuple[int, bool]:
        return int(await connection.fetchval(PULSE)), False

    database = await Database.open(
        url, migrations or (MADE,), SystemClock(), SystemEntropy(), pulse=pulse, patience=patience
    )
    try:
        yield database
    finally:
        await database.close()


def run(url: str, tell: Callable[[Database], Awaitable[None]], patience: float = PATIENCE) -> None:
    async def story() -> None:
        async with opened(url, patience=patience) as database:
            await tell(database)

    asyncio.run(story())


async def add(session: Session, row: int = 1) -> None:
    await session.connection.execute("UPDATE counter SET n = n + 1 WHERE id = $1", row)
    await session.connection.execute(
        "UPDATE receipt SET n = $1 WHERE writer = $2", session.writer.n, session.writer.name
    )
    session.sealed = True


async def read(database: Database, row: int = 1) -> int:
    async def ask(connection: Any) -> int:
        return int(await connection.fetchval("SELECT n FROM counter WHERE id = $1", row))

    return await database.read(ask, "reading")


async def end_others(connection: Any) -> None:
    """Break every other connection, as a restart of the server would."""
    await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")


class Cut:
    """A connection whose commit is answered by silence: before it arrives, or after it is done."""

    def __init__(self, connection: Any, arrives: bool) -> None:
        self._connection = connection
        self._arrives = arrives

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, sql: str, *bindings: Any) -> Any:
        if sql.endswith("COMMIT"):
            if self._arrives:
                await self._connection.execute(sql)
            self._connection.terminate()
            raise ConnectionResetError("the cable was cut")
        return await self._connection.execute(sql, *bindings)


class LostReply:
    """A step whose first commit gets no reply; how often it was made is its result."""

    def __init__(self, arrives: bool, closing: str | None = None) -> None:
        self._arrives = arrives
        self._closing = closing
        self._made = 0

    async def __call__(self, session: Session) -> int:
        self._made += 1
        await add(session)
        session.closing = self._closing
        if self._made == 1:
            session.connection = Cut(session.connection, self._arrives)
        return self._made
