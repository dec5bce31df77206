"""Where the files of a store lie, from its settings, without opening any of them."""

from pathlib import Path
from typing import Final, NamedTuple

from ganger.assembly.settings import Settings
from ganger.core.address import has_password, put_password
from ganger.core.errors import BadInput

_REMOTE: Final = frozenset({"http", "https"})
_SERVERS: Final = {
    "postgresql": "ganger-postgres",
    "postgres": "ganger-postgres",
    "mongodb": "ganger-mongo",
    "mongodb+srv": "ganger-mongo",
}
"""Database servers by the scheme of their URLs, and what the files are called that a machine keeps for them."""


BUCKET: Final = "s3://"


class Location(NamedTuple):
    """The database file, and the folder of large data."""

    database: Path
    blobs: Path

    @property
    def key(self) -> Path:
        """The key of the tokens that its nodes give."""
        return self.database.with_name(f"{self.database.name}-key")


def is_remote(settings: Settings) -> bool:
    """Are the tasks behind a server?"""
    return settings.store.partition(":")[0] in _REMOTE


def locate(settings: Settings) -> Location | None:
    """The files of the store; None for a store that has none. BadInput for a URL without a path."""
    scheme, _, rest = settings.store.partition(":")
    if scheme != "sqlite":
        return None
    database = _path(rest)
    return Location(database, _locate_blobs(settings, database))


def locate_own(settings: Settings) -> Location | None:
    """Where this machine keeps what is its own: beside the store's file, or in its home if a server has the tasks.

    None for a store that ends with the process.
    """
    if not is_served(settings):
        return locate(settings)
    place = Path.cwd() / settings.home / _SERVERS[_scheme(settings)]
    return Location(place, _locate_blobs(settings, place))


def fill_address(settings: Settings, address: str) -> str:
    """The address of a database with the password that the settings keep apart from it. Raises BadInput, StoreError."""
    path = settings.store_password_file
    if not path or has_password(address):
        return address
    try:
        password = Path(path).read_text("utf-8", errors="surrogateescape").removesuffix("\n")
    except OSError as error:
        why = f"the password cannot be read from {path}: {error.strerror}"
        raise BadInput(why, field="store_password_file") from None
    if not password:
        raise BadInput(f"there is no password in {path}", field="store_password_file")
    return put_password(address, password)


def _locate_blobs(settings: Settings, database: Path) -> Path:
    """The folder of large data. With a bucket there is none: what is in the bucket stays there."""
    if settings.blobs and not settings.blobs.startswith(BUCKET):
        return Path(settings.blobs)
    return database.with_name(f"{database.name}-blobs")


def is_served(settings: Settings) -> bool:
    """Does a database server have the tasks?"""
    return _scheme(settings) in _SERVERS


def is_postgres(settings: Settings) -> bool:
    """Does a PostgreSQL server have the tasks?"""
    return _scheme(settings) in {"postgresql", "postgres"}


def _scheme(settings: Settings) -> str:
    return settings.store.partition(":")[0]


def _path(rest: str) -> Path:
    """Both `sqlite:name.db` and `sqlite:///absolute/name.db` are understood."""
    if not rest.removeprefix("//"):
        raise BadInput("the store's URL has no path; write sqlite:ganger.db or sqlite:///path/to/ganger.db")
    return Path(rest.removeprefix("//"))
