"""A SQLite file shared by many processes, owned by one: group commit, ownership that passes on, no polling.

Each name is loaded when it is first used: whoever only glances at a file does not pay for what an owner needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from apsw import Connection as Connection

    from ganger.databases.migrations import Migration as Migration
    from ganger.databases.migrations import load_migrations as load_migrations
    from ganger.databases.sqlite.glancing import Glance as Glance
    from ganger.databases.sqlite.glancing import glance_at as glance_at
    from ganger.databases.sqlite.limits import Limits as Limits
    from ganger.databases.sqlite.operation import Operation as Operation
    from ganger.databases.sqlite.operation import Session as Session
    from ganger.databases.sqlite.operation import Together as Together
    from ganger.databases.sqlite.place import Host as Host
    from ganger.databases.sqlite.place import LocalHost as LocalHost
    from ganger.databases.sqlite.probes import PROBES as PROBES
    from ganger.databases.sqlite.probes import Probe as Probe
    from ganger.databases.sqlite.probes import no_probe as no_probe
    from ganger.databases.sqlite.receipts import prune_units as prune_units
    from ganger.databases.sqlite.shared import SharedFile as SharedFile
    from ganger.databases.sqlite.versions import PROTOCOL as PROTOCOL
    from ganger.databases.sqlite.widening import run_wide as run_wide
    from ganger.databases.sqlite.wire import Rank as Rank
    from ganger.databases.statements import list_files as list_files
    from ganger.databases.statements import load_queries as load_queries
    from ganger.databases.statements import load_query as load_query

_PLACES: Final = {
    "Connection": "apsw",
    "Glance": "ganger.databases.sqlite.glancing",
    "Host": "ganger.databases.sqlite.place",
    "Limits": "ganger.databases.sqlite.limits",
    "LocalHost": "ganger.databases.sqlite.place",
    "Migration": "ganger.databases.migrations",
    "Operation": "ganger.databases.sqlite.operation",
    "PROBES": "ganger.databases.sqlite.probes",
    "PROTOCOL": "ganger.databases.sqlite.versions",
    "Probe": "ganger.databases.sqlite.probes",
    "Rank": "ganger.databases.sqlite.wire",
    "Session": "ganger.databases.sqlite.operation",
    "SharedFile": "ganger.databases.sqlite.shared",
    "Together": "ganger.databases.sqlite.operation",
    "glance_at": "ganger.databases.sqlite.glancing",
    "list_files": "ganger.databases.statements",
    "load_migrations": "ganger.databases.migrations",
    "load_queries": "ganger.databases.statements",
    "load_query": "ganger.databases.statements",
    "no_probe": "ganger.databases.sqlite.probes",
    "prune_units": "ganger.databases.sqlite.receipts",
    "run_wide": "ganger.databases.sqlite.widening",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
