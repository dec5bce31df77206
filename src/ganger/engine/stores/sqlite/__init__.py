"""The SQLite store."""

from ganger.engine.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
