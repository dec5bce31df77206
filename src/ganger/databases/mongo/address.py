"""Where a database is: its URL, the name in it of the database that is ours, and what the URL says to the store."""

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

from ganger.core.address import check_address, strip_password
from ganger.core.errors import BadInput

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")
_SCHEMES: Final = ("mongodb", "mongodb+srv")
_OWN: Final = ("dialect",)
"""Options that are the store's, and that the driver must not see."""


class Address(NamedTuple):
    """A URL as the driver takes it, and the database that its path names."""

    url: str
    database: str

    def __repr__(self) -> str:
        return f"Address({strip_password(self.url)!r})"


def read_address(url: str) -> Address:
    """`mongodb://user:password@host:port/database?options`; the options are the driver's, but for our own."""
    check_address(url)
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise BadInput("a MongoDB store is named mongodb://user@host/database")
    database = parts.path.removeprefix("/")
    if not _NAME.fullmatch(database):
        raise BadInput(
            f"the URL names the database {database!r}: use 1 to 60 letters, digits, - and _, as in mongodb://host/ganger",
            database=database,
        )
    return Address(_leave_out_own(url), database)


def read_option(url: str, name: str) -> str | None:
    """What the URL says of an option of the store's own."""
    return dict(parse_qsl(urlsplit(url).query)).get(name)


def _leave_out_own(url: str) -> str:
    parts = urlsplit(url)
    given = parse_qsl(parts.query, keep_blank_values=True)
    left = [(name, value) for name, value in given if name not in _OWN]
    return url if left == given else parts._replace(query=urlencode(left)).geturl()
