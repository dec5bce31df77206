"""The receipts of units that came from other processes, when they have served."""

import json
from pathlib import Path
from typing import Final

from ganger.databases.sqlite.operation import Session
from ganger.databases.sqlite.place import find_bags
from ganger.databases.statements import load_queries

_YOUNGEST_MS: Final = 60 * 60_000


def prune_units(session: Session, before_wall: int) -> int:
    """Forget the receipts of clients that are gone; how many there were.

    A receipt younger than an hour of the boot clock stays whatever the wall clock says: a unit may be sent again for
    half an hour, and must then find it. So do the letters in a bag, for as long as it is there.
    """
    query = load_queries("ganger.databases.sqlite", "queries")["prune_units"]
    spared = keep_receipts_of(Path(session.connection.filename))
    session.connection.execute(query, (before_wall, session.now - _YOUNGEST_MS, spared))
    return session.connection.changes()


def keep_receipts_of(database: Path) -> str:
    """The clients that have a bag, as JSON: what lies in it would be run again without its receipt."""
    return json.dumps([path.name.rpartition("-")[2] for path in find_bags(database)])
