"""The PostgreSQL store."""

from ganger.engine.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
