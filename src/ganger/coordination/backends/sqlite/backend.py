"""The contract over a shared file: its owner makes every change, with those of other callers in one commit."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

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
from ganger.core.clock import Clock, Entropy
from ganger.databases.sqlite import (
    Connection,
    Host,
    Operation,
    Session,
    SharedFile,
    load_migrations,
    load_queries,
)

APPLICATION: Final = "ganger-coordination"
BEHIND_ALL: Final = "\U0010ffff"
"""Behind whatever follows a prefix."""
_Q: Final = load_queries("ganger.coordination.backends.sqlite", "queries")


class Put(NamedTuple):
    """A write, as it travels to the owner; without a version it makes the document."""

    name: str
    body: str
    version: Version | None


class Removal(NamedTuple):
    name: str
    version: Version


class Answer(NamedTuple):
    version: Version
    at: int


def _put(session: Session, put: Put) -> Answer:
    if put.version is None:
        term: int = session.connection.execute(_Q["term_next"]).get
        version = Version(term, 1)
        made = session.connection.execute(_Q["make"], (put.name, term, put.body)).fetchall()
    else:
        version = put.version._replace(number=put.version.number + 1)
        made = session.connection.execute(_Q["replace"], (put.name, *put.version, put.body)).fetchall()
    if not made:
        raise stale_version(put.name)
    session.wake(put.name)
    return Answer(version, session.wall)


def _remove(session: Session, removal: Removal) -> None:
    if not session.connection.execute(_Q["remove"], (removal.name, *removal.version)).fetchall():
        raise stale_version(removal.name)
    session.wake(removal.name)


OPERATIONS: Final[tuple[Operation[Any, Any], ...]] = (
    Operation("put", Put, Answer, _put),
    Operation("remove", Removal, None, _remove),
)


class SqliteBackend:
    """`Backend` over one file; the processes of the machine share it."""

    def __init__(self, file: SharedFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    @classmethod
    async def open(cls, path: Path, clock: Clock, entropy: Entropy, host: Host | None = None) -> "SqliteBackend":
        """The documents in this file, which is made if it is not there. Raises as `SharedFile.open` does."""
        file = await SharedFile.open(
            path,
            operations=OPERATIONS,
            migrations=load_migrations("ganger.coordination.backends.sqlite", "migrations"),
            clock=clock,
            entropy=entropy,
            application=APPLICATION,
            host=host,
        )
        return cls(file, clock)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(notifies=True)

    async def read(self, name: str) -> Reading:
        rows = await self._file.read(lambda connection: _read(connection, check_name(name)))
        at = self._clock.wall()
        if not rows:
            return Reading(None, None, at)
        term, number, body = rows[0]
        return Reading(decode(body, name), Version(term, number), at)

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        answer = await self._file.call("put", Put(check_name(name), encode(document).decode(), version))
        return Written(*answer)

    async def delete(self, name: str, version: Version) -> None:
        await self._file.call("remove", Removal(check_name(name), version))

    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        wanted = str(list(check_fields(fields))).replace("'", '"')
        rows = await self._file.read(lambda connection: _list(connection, prefix, wanted))
        found = [Listed(name, Version(term, number), decode(body, name)) for name, term, number, body in rows]
        return Listing(found, self._clock.wall())

    def watch(self, names: Iterable[str], told: Callable[[], None]) -> Callable[[], None]:
        return self._file.listen(names, lambda _: told())

    async def close(self) -> None:
        await self._file.close()


def _read(connection: Connection, name: str) -> list[Any]:
    return connection.execute(_Q["read"], (name,)).fetchall()


def _list(connection: Connection, prefix: str, wanted: str) -> list[Any]:
    return connection.execute(_Q["list"], (prefix, prefix + BEHIND_ALL, wanted)).fetchall()
