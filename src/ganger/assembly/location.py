"""Where the files of a store lie, from its settings, without opening any of them."""

from pathlib import Path
from typing import Final, NamedTuple

from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput

_REMOTE: Final = frozenset({"http", "https"})
_SERVERS: Final = frozenset({"postgresql", "postgres"})


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
    blobs = Path(settings.blobs) if settings.blobs else database.with_name(database.name + "-blobs")
    return Location(database, blobs)


def locate_own(settings: Settings) -> Location | None:
    """Where this machine keeps what is its own: beside the store's file, or in this folder if a server has the tasks.

    None for a store that ends with the process.
    """
    if not is_served(settings):
        return locate(settings)
    place = Path.cwd() / "ganger-postgres"
    return Location(place, Path(settings.blobs) if settings.blobs else place.with_name(f"{place.name}-blobs"))


def is_served(settings: Settings) -> bool:
    """Does a database server have the tasks?"""
    return settings.store.partition(":")[0] in _SERVERS


def _path(rest: str) -> Path:
    """Both `sqlite:name.db` and `sqlite:///absolute/name.db` are understood."""
    if not rest.removeprefix("//"):
        raise BadInput("the store's URL has no path; write sqlite:ganger.db or sqlite:///path/to/ganger.db")
    return Path(rest.removeprefix("//"))
