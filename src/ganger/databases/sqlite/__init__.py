"""A SQLite file shared by many processes, owned by one: group commit, ownership that passes on, no polling."""

from apsw import Connection

from ganger.databases.sqlite.limits import Limits
from ganger.databases.sqlite.migrate import Migration, load_migrations, load_queries
from ganger.databases.sqlite.operation import Operation, Session, Together
from ganger.databases.sqlite.place import Host, LocalHost
from ganger.databases.sqlite.probes import PROBES, Probe, no_probe
from ganger.databases.sqlite.receipts import prune_units
from ganger.databases.sqlite.shared import SharedFile
from ganger.databases.sqlite.wire import PROTOCOL, Rank

__all__ = [
    "PROBES",
    "PROTOCOL",
    "Connection",
    "Host",
    "Limits",
    "LocalHost",
    "Migration",
    "Operation",
    "Probe",
    "Rank",
    "Session",
    "SharedFile",
    "Together",
    "load_migrations",
    "load_queries",
    "no_probe",
    "prune_units",
]
