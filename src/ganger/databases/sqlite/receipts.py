"""The receipts of units that came from other processes, when they have served."""

from typing import Final

from ganger.databases.sqlite.operation import Session
from ganger.databases.sqlite.statements import load_queries

_YOUNGEST_MS: Final = 60 * 60_000


def prune_units(session: Session, before_wall: int) -> int:
    """Forget the receipts of clients that are gone; how many there were.

    A receipt younger than an hour of the boot clock stays whatever the wall clock says: a unit may be sent again for
    half an hour, and must then find it.
    """
    query = load_queries("ganger.databases.sqlite", "queries")["prune_units"]
    session.connection.execute(query, (before_wall, session.now - _YOUNGEST_MS))
    return session.connection.changes()
