"""One short look at a database file, without becoming its owner or asking one.

What can go wrong, and why this is right:

Somebody owns the file. Then this is one more reader beside it, which sees every commit that was acknowledged before.

Nobody owns it. A dead owner may have written a commit and died before the sync: SQLite finds that commit in the log
and shows it. An heir would make it durable before it answers, so the log is synced here too, once the snapshot is
taken and before anything of it is told. A reader writes nothing and never checkpoints: the heir finds what it would
have found.

The disk had failed. What the log holds may be in the cache alone, and to sync it again proves nothing: the nameplate
says so, and the file is left to one that owns it and checks it. The same goes for whatever else is not plainly well: no
nameplate, a damaged log, the log of another database, another program's file, another version's tables, a place where
no database may live. `None` then means: open it in full, which mends it or says what is wrong.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw

from ganger.core.errors import StoreError
from ganger.databases.sqlite.connecting import open_reader, shut
from ganger.databases.sqlite.errors import translate
from ganger.databases.sqlite.logfile import read_log
from ganger.databases.sqlite.nameplate import read_nameplate
from ganger.databases.sqlite.place import LocalHost, Place, refuse_place
from ganger.databases.sqlite.versions import FORMAT, PROTOCOL, mark_of
from ganger.databases.statements import load_query

T = TypeVar("T")


class Glance(NamedTuple):
    """One snapshot of a file."""

    connection: apsw.Connection

    def read(self, query: Callable[[apsw.Connection], T]) -> T:
        """What the query finds. StoreError if the file cannot be read."""
        try:
            return query(self.connection)
        except apsw.Error as error:
            raise translate(error, "reading") from error


@contextmanager
def glance_at(path: Path, *, application: str, schema: int) -> Iterator[Glance | None]:
    """The file as it is now, if it is plainly well and its tables are those of this migration; else None."""
    place = Place.of(path)
    connection = _open(place)
    try:
        yield Glance(connection) if connection is not None and _settle(connection, place, application, schema) else None
    finally:
        if connection is not None:
            shut(connection)


def _open(place: Place) -> apsw.Connection | None:
    plate = read_nameplate(place)
    if plate is None or not plate.sound or plate.names_another(place):
        return None
    if not plate.lives() and read_log(place.log).damage is not None:
        return None
    try:
        refuse_place(place, LocalHost())
        return open_reader(place, None)
    except StoreError:
        return None


def _settle(connection: apsw.Connection, place: Place, application: str, schema: int) -> bool:
    """Take the snapshot, see whose it is, and make sure that it outlives a loss of power."""
    try:
        connection.execute("BEGIN")
        fits = _fits(connection, application, schema)
    except apsw.Error:
        return False
    return fits and _sync_log(place)


def _fits(connection: apsw.Connection, application: str, schema: int) -> bool:
    if connection.pragma("application_id") != mark_of(application) or connection.pragma("user_version") != schema:
        return False
    found = list(connection.execute(load_query("ganger.databases.sqlite", "queries", "read_ownership")))
    return any(file_format <= FORMAT and minimum <= PROTOCOL for file_format, minimum in found)


def _sync_log(place: Place) -> bool:
    try:
        log = os.open(f"{place.database}-wal", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        os.fsync(log)
    except OSError:
        return False
    finally:
        os.close(log)
    return True
