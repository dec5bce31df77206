"""Documents in a SQLite file of their own, shared by the processes of one machine."""

from ganger.coordination.backends.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
