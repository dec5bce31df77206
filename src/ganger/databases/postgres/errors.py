"""Foreign exceptions become errors of the tree here, once."""

from typing import Final

import asyncpg

from ganger.core.errors import (
    BadInput,
    GangerError,
    StoreBroken,
    StoreError,
    StoreFull,
    StoreNotADatabase,
    StoreReadOnly,
    StoreUnavailable,
)

_LONGEST: Final = 200
CONFLICTS: Final = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)
"""Two transactions were in each other's way: nothing of this one was stored, and it may simply run again."""

LOST: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""The server is not there, or not any more; or the connection is of no use, as one that broke in the middle."""

_ADVICE: Final[tuple[tuple[type[Exception], type[GangerError], str], ...]] = (
    (asyncpg.DiskFullError, StoreFull, "the disk of the database server is full: free some space there"),
    (asyncpg.ReadOnlySQLTransactionError, StoreReadOnly, "the server takes no writes: name the primary, not a replica"),
    (asyncpg.InsufficientPrivilegeError, StoreReadOnly, "the role may not do this: grant it what docs/how-to says"),
    (asyncpg.InvalidCatalogNameError, StoreNotADatabase, "there is no such database: create it, or name another"),
    (asyncpg.InvalidAuthorizationSpecificationError, StoreUnavailable, "the server refuses this user: check the URL"),
    (asyncpg.CharacterNotInRepertoireError, BadInput, "PostgreSQL keeps no NUL in a text: leave it out"),
    (asyncpg.UntranslatableCharacterError, BadInput, "PostgreSQL keeps no such character in a text: leave it out"),
    (asyncpg.DivisionByZeroError, StoreError, "a statement of the store is wrong: please report it"),
    (asyncpg.DataError, BadInput, "PostgreSQL cannot keep this value"),
    (asyncpg.DataCorruptedError, StoreBroken, "the database is damaged: restore it from a copy"),
    (asyncpg.IndexCorruptedError, StoreBroken, "an index of the database is damaged: rebuild it with REINDEX"),
)


def translate(error: Exception, doing: str) -> GangerError:
    """The error of the tree for what the driver or an operation raised; one of the tree stays as it is."""
    if isinstance(error, GangerError):
        return error
    for foreign, kind, advice in _ADVICE:
        if isinstance(error, foreign):
            return kind(f"{advice} ({_word(error)})", doing=doing)
    if isinstance(error, LOST):
        return unavailable(error, doing)
    return StoreError(f"{doing} failed with {type(error).__name__}: {_word(error)}", doing=doing)


def _word(error: Exception) -> str:
    """What the server says, without the details: those show the row that it refuses, with all that is in it."""
    return (str(error).splitlines() or [""])[0][:_LONGEST]


def unavailable(error: Exception, doing: str) -> StoreUnavailable:
    said = str(error) or type(error).__name__
    return StoreUnavailable(f"the database server cannot be reached: is it running? ({said})", doing=doing)
