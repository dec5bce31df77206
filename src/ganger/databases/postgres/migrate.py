"""Numbered migrations, each run once, however many nodes start at one moment.

All that is missing runs in one transaction under an advisory lock: whoever comes second waits, and finds it done. A
role without the right to make tables may open a database that is up to date.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from ganger.core.clock import Wall
from ganger.core.errors import MigrationChanged, StoreError, StoreNewerVersion
from ganger.databases.postgres.address import Address
from ganger.databases.postgres.statements import Q, list_files

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


async def migrate(connection: Any, address: Address, migrations: Sequence[Migration], wall: Wall) -> None:
    """Bring the schema up to the last migration; one that ran before with other text is MigrationChanged."""
    if _missing(migrations, await _known(connection)):
        async with connection.transaction():
            await connection.execute(Q.migration_lock, address.lock("migrations"))
            await _prepare(connection, address)
            for migration in _missing(migrations, await _known(connection)):
                await connection.execute(migration.sql)
                await connection.execute(Q.migration_record, migration.number, migration.name, migration.checksum, wall)


async def _known(connection: Any) -> dict[int, str]:
    there = await connection.fetchval(Q.migration_there)
    return dict(await connection.fetch(Q.migration_list)) if there else {}


async def _prepare(connection: Any, address: Address) -> None:
    # Asked first: a role that owns its schema need not be allowed to make others.
    if not await connection.fetchval(Q.schema_there, address.schema):
        await connection.execute(f"CREATE SCHEMA {address.schema}")
    if not await connection.fetchval(Q.migration_there):
        await connection.execute(Q.migration_table)
        await connection.execute(Q.receipt_table)


def _missing(migrations: Sequence[Migration], known: dict[int, str]) -> list[Migration]:
    """Those that have not run; refuses a schema that is not what these migrations made."""
    newer = max(known, default=0) - len(migrations)
    if newer > 0:
        raise StoreNewerVersion(
            f"a newer version of Ganger has used this schema ({newer} migrations more): upgrade this one", by=newer
        )
    for migration in migrations:
        if known.get(migration.number, migration.checksum) != migration.checksum:
            raise _changed(migration)
    return [migration for migration in migrations if migration.number not in known]


def _changed(migration: Migration) -> MigrationChanged:
    return MigrationChanged(
        f"migration {migration.number} ({migration.name}) ran on this schema with other text: "
        "undo the edit and write a new migration",
        number=migration.number,
        name=migration.name,
    )
