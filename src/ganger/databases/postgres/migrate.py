"""Numbered migrations, each run once, however many nodes start at one moment.

All that is missing runs in one transaction under an advisory lock: whoever comes second waits, and finds it done. A
role without the right to make tables may open a database that is up to date.
"""

from collections.abc import Sequence
from typing import Any

from ganger.core.clock import Wall
from ganger.core.errors import StoreNewerVersion
from ganger.databases.migrations import Migration
from ganger.databases.postgres.address import Address
from ganger.databases.postgres.statements import Q


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
        migration.check_ran(known.get(migration.number, migration.checksum))
    return [migration for migration in migrations if migration.number not in known]
