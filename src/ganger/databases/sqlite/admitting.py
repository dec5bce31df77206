"""No process has two databases open under one name.

SQLite's locks, and the index of the log that it maps into memory, belong to the process and to a name. If another
database was put in the place of one that is still open here, and were opened too, SQLite would find no lock in its way
(its own are none), take the index for one that was left behind, and cut it under the feet of the first connection: the
process would die of a bus error. So the second is refused until every connection to the first is closed.

This is of the process, as what it guards against is. A forked child has no locks of its parent's, and begins anew.
"""

import os
import threading
from pathlib import Path
from typing import Final

import apsw

from ganger.core.errors import StoreReplaced

Identity = tuple[int, int]

_lock: Final = threading.Lock()
_open: Final[dict[int, tuple[str, Identity]]] = {}
os.register_at_fork(after_in_child=_open.clear)


def admit(database: Path, connection: apsw.Connection) -> None:
    """Call it when the connection is open and has read nothing yet. StoreReplaced: it was closed again."""
    found = identify(database)
    with _lock:
        others = {identity for path, identity in _open.values() if path == str(database)}
        if found is not None and others <= {found}:
            _open[id(connection)] = str(database), found
            return
    connection.close(True)
    raise tell_replaced(database)


def dismiss(connection: apsw.Connection) -> None:
    """The connection is closed. Idempotent."""
    with _lock:
        _open.pop(id(connection), None)


def identify(database: Path) -> Identity | None:
    """Which file has this name now; None if there is none."""
    try:
        found = os.stat(database)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def tell_replaced(database: Path) -> StoreReplaced:
    return StoreReplaced(
        f"{database} was removed or replaced while it was in use: put it back, or start again what uses it",
        path=str(database),
    )
