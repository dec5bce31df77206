"""Where a database is: its URL, and the name in it of the database that is ours."""

import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ganger.core.errors import BadInput

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")
_SCHEMES: Final = ("mongodb", "mongodb+srv")


class Address(NamedTuple):
    """A URL as the driver takes it, and the database that its path names."""

    url: str
    database: str


def read_address(url: str) -> Address:
    """`mongodb://user:password@host:port/database?options`; the options are the driver's."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise BadInput("a MongoDB store is named mongodb://user@host/database")
    database = parts.path.removeprefix("/")
    if not _NAME.fullmatch(database):
        raise BadInput(
            f"the URL names the database {database!r}: use 1 to 60 letters, digits, - and _, as in mongodb://host/ganger",
            database=database,
        )
    return Address(url, database)
