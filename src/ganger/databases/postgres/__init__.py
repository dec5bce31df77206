"""PostgreSQL: a pool, transactions whose outcome is always known, migrations, wake-ups, the server's time."""

from ganger.databases.migrations import Migration, load_migrations
from ganger.databases.postgres.address import Address, read_address
from ganger.databases.postgres.database import Database
from ganger.databases.postgres.literals import write_bytes, write_numbers, write_words
from ganger.databases.postgres.session import NeedsToRunAlone, RunAgain, Session
from ganger.databases.statements import load_queries
from ganger.databases.timekeeping import HandedTime, Reading, ServerTime, Timekeeper

__all__ = [
    "Address",
    "Database",
    "HandedTime",
    "Migration",
    "NeedsToRunAlone",
    "Reading",
    "RunAgain",
    "ServerTime",
    "Session",
    "Timekeeper",
    "load_migrations",
    "load_queries",
    "read_address",
    "write_bytes",
    "write_numbers",
    "write_words",
]
