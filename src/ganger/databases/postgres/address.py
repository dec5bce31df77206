"""Where a database is: its URL, and the schema in it that is ours."""

import hashlib
import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ganger.core.address import check_address, strip_password
from ganger.core.errors import BadInput

DEFAULT_SCHEMA: Final = "ganger"
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,40}")
_SCHEMES: Final = ("postgresql", "postgres")


class Address(NamedTuple):
    """A URL as the driver takes it, and the schema that its `?schema=` named."""

    url: str
    schema: str = DEFAULT_SCHEMA

    @property
    def channel(self) -> str:
        """Where wake-ups of this schema are sent."""
        return f"ganger_{self.schema}"

    def lock(self, purpose: str) -> int:
        """The number of an advisory lock of this schema; the server keeps those of each database apart."""
        digest = hashlib.sha256(f"ganger:{self.schema}:{purpose}".encode()).digest()
        return int.from_bytes(digest[:8], signed=True)

    def __repr__(self) -> str:
        return f"Address({strip_password(self.url)!r})"


def read_address(url: str) -> Address:
    """`postgresql://user:password@host:port/database?schema=ganger`; whatever is left out is the driver's default."""
    check_address(url)
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise BadInput("a PostgreSQL store is named postgresql://user@host/database")
    given = parse_qsl(parts.query, keep_blank_values=True)
    schema = dict(given).get("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise BadInput(
            f"the schema {schema!r} is no plain name: use at most 41 small letters, digits and underscores",
            schema=schema,
        )
    rest = urlencode([(name, value) for name, value in given if name != "schema"])
    return Address(urlunsplit(parts._replace(query=rest)), schema)
