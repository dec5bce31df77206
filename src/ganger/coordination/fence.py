"""What is written under a lock is refused when a later holder was there: the check of the epoch, in the write's own
step.

A lock alone protects nothing that lies elsewhere: its holder may be stopped between its last look at the clock and its
write, for longer than the lease. So the protected database keeps the highest epoch that it has seen of each lock, in a
table of its own, and every write under the lock raises it in the same transaction. A holder with a lower one is
refused, and its transaction with it. Both orders are right: who commits before its successor's first write was still
the holder as far as this database knows.

    with connection:                                      # a transaction of yours
        raise_epoch(connection, lock.name, lock.epoch)    # StaleEpoch: somebody else has written here since
        connection.execute("UPDATE report SET ...")

A new leader does this once before any duty, so that nothing of its predecessor is taken from then on. What can not
check an epoch in the step of its write (a file, an e-mail, most web services) is unprotected: make it idempotent
instead.

It works with SQLite (`sqlite3`, `apsw`) and PostgreSQL (`psycopg`, `psycopg2`, Django's connections; `asyncpg` and the
async kind of `psycopg` with the async functions).
"""

import inspect
import re
from contextlib import closing
from typing import Any, Final

from ganger.coordination.backend import Version
from ganger.core.errors import BadInput, StaleEpoch
from ganger.databases.statements import load_queries

_Q: Final = load_queries("ganger.coordination", "queries")
_MARKED: Final = frozenset({"sqlite3", "apsw"})
_PLACE: Final = re.compile(r"\$\d")


def prepare_epochs(connection: Any) -> None:
    """Make the table of epochs if it is not there; once, in a transaction of its own."""
    _refuse_async(connection)
    with closing(connection.cursor()) as cursor:
        cursor.execute(_Q["epoch_table"])


async def async_prepare_epochs(connection: Any) -> None:
    """As `prepare_epochs`, over a connection for async code."""
    _refuse_sync(connection)
    await connection.execute(_Q["epoch_table"])


def raise_epoch(connection: Any, lock: str, epoch: Version) -> None:
    """In the transaction that is open: refuse it if a later holder of the lock was here. Raises StaleEpoch.

    Nothing is committed here. Whoever else writes under the same lock waits until this transaction has ended.
    """
    _refuse_async(connection)
    with closing(connection.cursor()) as cursor:
        cursor.execute(_write(connection), (lock, epoch.term, epoch.number))
        _check(list(cursor.fetchall()), lock, epoch)


async def async_raise_epoch(connection: Any, lock: str, epoch: Version) -> None:
    """As `raise_epoch`, over a connection for async code."""
    _refuse_sync(connection)
    if _driver(connection) == "asyncpg":
        rows = await connection.fetch(_Q["epoch_raise"], lock, epoch.term, epoch.number)
    else:
        asked = await connection.execute(_write(connection), (lock, epoch.term, epoch.number))
        rows = await asked.fetchall()
    _check(list(rows), lock, epoch)


def _check(rows: list[Any], lock: str, epoch: Version) -> None:
    if not rows:
        raise StaleEpoch(
            f"a later holder of {lock!r} has written here: what was done under epoch {epoch} is not taken",
            lock=lock,
            epoch=str(epoch),
        )


def _write(connection: Any) -> str:
    return _PLACE.sub("?" if _driver(connection) in _MARKED else "%s", _Q["epoch_raise"])


def _driver(connection: Any) -> str:
    return type(connection).__module__.partition(".")[0]


def _is_async(connection: Any) -> bool:
    return _driver(connection) == "asyncpg" or inspect.iscoroutinefunction(getattr(connection, "commit", None))


def _refuse_async(connection: Any) -> None:
    if _is_async(connection):
        raise BadInput("this connection is one for async code: await the async function")


def _refuse_sync(connection: Any) -> None:
    if not _is_async(connection):
        raise BadInput("this connection is none for async code: call the plain function")
