"""Where an index is: the URL of its server, and the name that its path has."""

import re
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from ganger.core.address import check_address, strip_password
from ganger.core.errors import BadInput

_SCHEMES: Final = {
    "elasticsearch+http": "http",
    "elasticsearch+https": "https",
    "opensearch+http": "http",
    "opensearch+https": "https",
}
_INDEX: Final = re.compile(r"[a-z0-9][a-z0-9_.-]{0,100}")
DEFAULT_INDEX: Final = "ganger"


class Address(NamedTuple):
    """A server without its credentials, who asks, and the index."""

    url: str
    credentials: tuple[str, str] | None
    name: str

    def __repr__(self) -> str:
        return f"Address({self.url!r}, name={self.name!r})"


def read_address(url: str) -> Address:
    """`elasticsearch+https://user:password@host:9200/index`; `elasticsearch+http` without TLS."""
    check_address(url)
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise BadInput("Elasticsearch is named elasticsearch+https://user@host:9200/index, or elasticsearch+http://...")
    index = parts.path.strip("/") or DEFAULT_INDEX
    if not _INDEX.fullmatch(index):
        raise BadInput(
            f"{strip_password(url)} names the index {index!r}: use small letters, digits, - _ and .", index=index
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port is None else f":{parts.port}"
    user = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
    return Address(f"{_SCHEMES[parts.scheme]}://{host}{port}", user, index)
