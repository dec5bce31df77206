"""MongoDB: a client, steps of many documents on any server, wake-ups, the server's time."""

from ganger.databases.mongo.address import Address, read_address, read_option
from ganger.databases.mongo.database import Database
from ganger.databases.mongo.documents import (
    DatetimeMS,
    ObjectId,
    date,
    from_json,
    is_kept,
    object_id,
    to_json,
    wall_of,
)
from ganger.databases.mongo.draft import Choice, Doc, Draft, Table, Wording
from ganger.databases.mongo.indexing import Index
from ganger.databases.mongo.patience import PATIENCE
from ganger.databases.mongo.session import Session

__all__ = [
    "PATIENCE",
    "Address",
    "Choice",
    "Database",
    "DatetimeMS",
    "Doc",
    "Draft",
    "Index",
    "ObjectId",
    "Session",
    "Table",
    "Wording",
    "date",
    "from_json",
    "is_kept",
    "object_id",
    "read_address",
    "read_option",
    "to_json",
    "wall_of",
]
