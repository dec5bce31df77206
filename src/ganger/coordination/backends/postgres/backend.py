"""The contract over a schema: every write is one statement, whose receipt tells what became of a lost answer."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from ganger.coordination.backend import (
    Capabilities,
    Document,
    Listed,
    Listing,
    Reading,
    Version,
    Written,
    check_fields,
    check_name,
    decode,
    encode,
    stale_version,
)
from ganger.core.clock import Clock, Entropy, Wall
from ganger.databases.postgres import Database, Session, load_migrations, load_queries
from ganger.databases.postgres.database import PATIENCE

_PACKAGE: Final = "ganger.coordination.backends.postgres"
_Q: Final = load_queries(_PACKAGE, "queries")
_CONNECTIONS: Final = 4


class PostgresBackend:
    """`Backend` over a schema that any number of machines share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, url: str, clock: Clock, entropy: Entropy, *, patience: float = PATIENCE) -> "PostgresBackend":
        """The documents in the schema that the URL names, made or brought up to date first if need be."""
        migrations = load_migrations(_PACKAGE, "migrations")
        database = await Database.open(
            url, migrations, clock, entropy, pulse=_pulse, connections=_CONNECTIONS, patience=patience
        )
        return cls(database)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(notifies=True, server_clock=True)

    async def read(self, name: str) -> Reading:
        check_name(name)
        term, number, body, at = await self._database.read(
            lambda connection: connection.fetchrow(_Q["read"], name), "reading a document"
        )
        if body is None:
            return Reading(None, None, Wall(at))
        return Reading(decode(body, name), Version(term, number), Wall(at))

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        body = encode(document).decode()
        query = _Q["make"] if version is None else _Q["replace"]
        return await self._change(
            check_name(name),
            lambda session: session.connection.fetchrow(
                query, name, body, session.writer.name, session.writer.n, *(version or ())
            ),
        )

    async def delete(self, name: str, version: Version) -> None:
        await self._change(
            check_name(name),
            lambda session: session.connection.fetchrow(
                _Q["remove"], name, session.writer.name, session.writer.n, *version
            ),
        )

    async def _change(self, name: str, run: Callable[[Session], Awaitable[Any]]) -> Written:
        async def work(session: Session) -> Any:
            row = await run(session)
            if row is not None:
                session.wake(name)
            return row

        async def recall(session: Session) -> Any:
            session.wake(name)
            return await session.connection.fetchrow(_Q["recall"], session.writer.name)

        row = await self._database.transact_at_once(work, recall, "writing a document")
        if row is None:
            raise stale_version(name)
        return Written(Version(row["term"], row["number"]), Wall(row["at"]))

    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        check_fields(fields)

        async def ask(connection: Any) -> tuple[list[Any], int]:
            return await connection.fetch(_Q["list"], prefix, list(fields)), await connection.fetchval(_Q["now"])

        rows, at = await self._database.read(ask, "listing documents")
        found = [Listed(name, Version(term, number), decode(body, name)) for name, term, number, body in rows]
        return Listing(found, Wall(at))

    def watch(self, names: Iterable[str], told: Callable[[], None]) -> Callable[[], None]:
        return self._database.listen(names, lambda _: told())

    async def close(self) -> None:
        await self._database.close()


async def _pulse(connection: Any) -> tuple[object, bool]:
    return await connection.fetchval(_Q["pulse"]), False
