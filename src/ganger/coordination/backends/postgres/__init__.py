"""Documents in a schema of a PostgreSQL database, beside the one that the tasks have."""

from ganger.coordination.backends.postgres.backend import PostgresBackend

__all__ = ["PostgresBackend"]
