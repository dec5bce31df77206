"""Numbered migrations, each run once."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import apsw

from ganger.core.clock import Wall
from ganger.core.errors import MigrationChanged, StoreError
from ganger.databases.sqlite.statements import list_files

_NUMBERED: Final = re.compile(r"(?P<number>\d{4})_(?P<name>\w+)\.sql")


@dataclass(frozen=True)
class Migration:
    """One step of a schema. Once released it never changes."""

    number: int
    name: str
    sql: str

    @cached_property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_migrations(package: str, folder: str) -> tuple[Migration, ...]:
    """The files `NNNN_name.sql` of a package's folder, in order: 1, 2, 3, ... without a gap."""
    found = sorted((_read_migration(file) for file in list_files(package, folder)), key=lambda each: each.number)
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise StoreError(f"the migrations in {package}/{folder} are not numbered 1, 2, 3, ... without a gap")
    return tuple(found)


def _read_migration(file: Path) -> Migration:
    match = _NUMBERED.fullmatch(file.name)
    if match is None:
        raise StoreError(f"a migration is called NNNN_name.sql, not {file.name}")
    return Migration(int(match["number"]), match["name"], file.read_text("utf-8"))


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
        elif known[migration.number] != migration.checksum:
            raise _changed(migration)
    newest = max([0, *known, *(migration.number for migration in migrations)])
    connection.execute(f"PRAGMA user_version = {newest}")


def _changed(migration: Migration) -> MigrationChanged:
    return MigrationChanged(
        f"migration {migration.number} ({migration.name}) ran on this file with other text: "
        "undo the edit and write a new migration",
        number=migration.number,
        name=migration.name,
    )
