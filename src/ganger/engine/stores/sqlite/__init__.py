"""The SQLite store; each name is loaded when it is first used, because a glance needs far less than the store."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ganger.engine.stores.sqlite.glance import glance_at as glance_at
    from ganger.engine.stores.sqlite.store import SqliteStore as SqliteStore

_PLACES: Final = {"SqliteStore": "store", "glance_at": "glance"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
