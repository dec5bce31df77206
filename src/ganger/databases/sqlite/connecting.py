"""How a connection to a database file is opened and closed: one that never checkpoints, and one that only reads."""

from contextlib import suppress
from typing import Final

import apsw

from ganger.databases.sqlite.admitting import admit, dismiss
from ganger.databases.sqlite.checksums import find_layer
from ganger.databases.sqlite.errors import translate
from ganger.databases.sqlite.place import Place

PATIENCE: Final = 5_000
"""How many milliseconds a connection waits for another's lock."""


def connect(place: Place, vfs: str | None, *, create: bool) -> apsw.Connection:
    """A connection that never checkpoints on its own: neither after a commit nor when it is closed."""
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    layer = find_layer() if vfs is None else vfs
    try:
        connection = apsw.Connection(str(place.database), flags=flags, vfs=layer, statementcachesize=500)
    except apsw.Error as error:
        raise translate(error, "opening") from error
    admit(place.database, connection)
    connection.set_busy_timeout(PATIENCE)
    connection.wal_autocheckpoint(0)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # Otherwise a statement is planned anew whenever the values bound to it change.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection


def shut(connection: apsw.Connection) -> None:
    """Close for good. A disk that fails even here changes nothing: what is not in the file by now is in its log."""
    with suppress(apsw.Error):
        connection.close(True)
    dismiss(connection)


def open_reader(place: Place, vfs: str | None) -> apsw.Connection:
    """A connection beside the owner's that can only read."""
    connection = connect(place, vfs, create=False)
    try:
        connection.pragma("query_only", True)
        connection.pragma("temp_store", 2)
        connection.pragma("user_version")
    except apsw.Error as error:
        shut(connection)
        raise translate(error, "opening for reading") from error
    return connection
