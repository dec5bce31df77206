"""Migrations on a file, inside the transaction that is open."""

from collections.abc import Sequence

import apsw

from ganger.core.clock import Wall
from ganger.databases.migrations import Migration


def migrate(connection: apsw.Connection, migrations: Sequence[Migration], queries: dict[str, str], wall: Wall) -> None:
    """Bring the schema up to the last migration, inside the transaction that is open.

    A migration that ran before with other text is MigrationChanged. Migrations that only a newer version knows are
    left alone: whether that version may share the file was decided before.
    """
    known = {number: checksum for number, _, checksum in connection.execute(queries["list_migrations"])}
    for migration in migrations:
        if migration.number not in known:
            connection.execute(migration.sql)
            row = (migration.number, migration.name, migration.checksum, wall)
            connection.execute(queries["record_migration"], row)
        else:
            migration.check_ran(known[migration.number])
    newest = max([0, *known, *(migration.number for migration in migrations)])
    connection.execute(f"PRAGMA user_version = {newest}")
