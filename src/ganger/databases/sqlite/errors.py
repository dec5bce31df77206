"""Foreign exceptions become errors of the tree here, once."""

import errno
from typing import Final

import apsw

from ganger.core.errors import (
    GangerError,
    StoreBroken,
    StoreError,
    StoreFull,
    StoreNotADatabase,
    StoreReadOnly,
    StoreUnavailable,
    decode,
    encode,
)

PASSING: Final = (StoreFull, StoreUnavailable, StoreBroken)
"""What may be otherwise the next time: a letter that met one of these is not refused for good."""

_ADVICE: Final[tuple[tuple[type[Exception], type[StoreError], str], ...]] = (
    (apsw.FullError, StoreFull, "the disk is full: free some space"),
    (apsw.NotADBError, StoreNotADatabase, "the file is not a SQLite database: name another file"),
    (apsw.ReadOnlyError, StoreReadOnly, "the file cannot be written: check its permissions and how it is mounted"),
    (apsw.BusyError, StoreUnavailable, "another program holds the database file: close it there"),
    (apsw.LockedError, StoreUnavailable, "another program holds the database file: close it there"),
    (apsw.CorruptError, StoreBroken, "the database file is damaged: restore it from a copy"),
    (apsw.IOError, StoreBroken, "the disk failed; what was under way may or may not be stored: check the disk"),
    (apsw.CantOpenError, StoreBroken, "the database file cannot be opened: check the folder and its permissions"),
    (apsw.NoMemError, StoreBroken, "SQLite ran out of memory"),
)


def translate(error: Exception, doing: str, connection: apsw.Connection | None = None) -> GangerError:
    """The error of the tree for what a database or an operation raised; one of the tree stays as it is."""
    if isinstance(error, GangerError):
        return error
    if isinstance(error, apsw.IOError) and connection is not None and connection.system_errno == errno.ENOSPC:
        return StoreFull("the disk is full: free some space", doing=doing)
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
        return StoreBroken("a page of the database does not fit its checksum: restore it from a copy", doing=doing)
    for foreign, kind, advice in _ADVICE:
        if isinstance(error, foreign):
            return kind(f"{advice} ({error})", doing=doing)
    return StoreError(f"{doing} failed with {type(error).__name__}: {error}", doing=doing)


def ends_group(error: Exception) -> bool:
    """Whether an exception of one unit leaves nothing to go on with for the other units of its group."""
    return isinstance(error, apsw.Error) and isinstance(
        translate(error, ""), StoreFull | StoreBroken | StoreNotADatabase | StoreReadOnly
    )


def breaks_file(error: GangerError) -> bool:
    """Whether the connection that met the error must not be used again."""
    return isinstance(error, StoreBroken | StoreNotADatabase | StoreReadOnly)


def copy(error: GangerError) -> GangerError:
    """A twin for another waiter: one exception object cannot be raised in two places."""
    twin = decode(*encode(error))
    twin.__cause__ = error.__cause__
    return twin
