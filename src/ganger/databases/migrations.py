"""Numbered migrations: the steps by which a schema came to be what it is, each run once and never changed."""

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from ganger.core.errors import MigrationChanged, StoreError
from ganger.databases.statements import list_files

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

    def check_ran(self, checksum: str) -> None:
        """Refuse a schema on which it ran with other text: MigrationChanged."""
        if checksum != self.checksum:
            raise MigrationChanged(
                f"migration {self.number} ({self.name}) ran on this database with other text: "
                "undo the edit and write a new migration",
                number=self.number,
                name=self.name,
            )


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
