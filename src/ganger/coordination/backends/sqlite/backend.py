"""The contract over a file that every process writes by itself, in one short transaction for each change."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
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
from ganger.core.clock import Clock
from ganger.databases.sqlite import Connection, Host, load_migrations, load_queries
from ganger.databases.sqlite.joint import JointFile

APPLICATION: Final = "ganger-coordination"
BEHIND_ALL: Final = "\U0010ffff"
"""Behind whatever follows a prefix."""
_Q: Final = load_queries("ganger.coordination.backends.sqlite", "queries")


class SqliteBackend:
    """`Backend` over one file; the processes of the machine share it."""

    def __init__(self, file: JointFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    @classmethod
    async def open(cls, path: Path, clock: Clock, host: Host | None = None) -> "SqliteBackend":
        """The documents in this file, which is made if it is not there. Raises as `JointFile.open` does."""
        migrations = load_migrations("ganger.coordination.backends.sqlite", "migrations")
        file = await JointFile.open(path, migrations=migrations, clock=clock, application=APPLICATION, host=host)
        return cls(file, clock)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(notifies=True)

    async def read(self, name: str) -> Reading:
        check_name(name)
        rows = await self._file.read(lambda connection: _read(connection, name))
        at = self._clock.wall()
        if not rows:
            return Reading(None, None, at)
        term, number, body = rows[0]
        return Reading(decode(body, name), Version(term, number), at)

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        body = encode(document).decode()
        check_name(name)
        given = await self._file.change(lambda connection: _put(connection, name, body, version))
        return Written(given, self._clock.wall())

    async def delete(self, name: str, version: Version) -> None:
        check_name(name)
        await self._file.change(lambda connection: _remove(connection, name, version))

    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        wanted = str(list(check_fields(fields))).replace("'", '"')
        rows = await self._file.read(lambda connection: _list(connection, prefix, wanted))
        found = [Listed(name, Version(term, number), decode(body, name)) for name, term, number, body in rows]
        return Listing(found, self._clock.wall())

    def watch(self, names: Iterable[str], told: Callable[[], None]) -> Callable[[], None]:
        return self._file.listen(names, lambda _: told())

    async def close(self) -> None:
        await self._file.close()


def _put(connection: Connection, name: str, body: str, version: Version | None) -> Version:
    if version is None:
        term: int = connection.execute(_Q["term_next"]).get
        given = Version(term, 1)
        made = connection.execute(_Q["make"], (name, term, body)).fetchall()
    else:
        given = version._replace(number=version.number + 1)
        made = connection.execute(_Q["replace"], (name, *version, body)).fetchall()
    if not made:
        raise stale_version(name)
    return given


def _remove(connection: Connection, name: str, version: Version) -> None:
    if not connection.execute(_Q["remove"], (name, *version)).fetchall():
        raise stale_version(name)


def _read(connection: Connection, name: str) -> list[Any]:
    return connection.execute(_Q["read"], (name,)).fetchall()


def _list(connection: Connection, prefix: str, wanted: str) -> list[Any]:
    return connection.execute(_Q["list"], (prefix, prefix + BEHIND_ALL, wanted)).fetchall()
