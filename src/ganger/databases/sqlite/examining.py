"""A look at a database file from outside: whether it is sound, who owns it, which version made it, how much room is."""

import os
from pathlib import Path
from typing import NamedTuple

import apsw

from ganger.core.clock import Wall
from ganger.core.errors import StoreNotADatabase
from ganger.databases.sqlite.connecting import open_reader, shut
from ganger.databases.sqlite.copying import check_integrity
from ganger.databases.sqlite.errors import translate
from ganger.databases.sqlite.nameplate import read_nameplate
from ganger.databases.sqlite.place import LocalHost, Place
from ganger.databases.sqlite.versions import FORMAT, PROTOCOL
from ganger.databases.statements import load_queries


class Examined(NamedTuple):
    """What was found. `damage` is what the integrity check says, nothing if all is well; `schema` the last migration.

    `owner` is the process that has the file now, None if nobody has; `sound` is False if it met a failing disk.
    """

    damage: list[str]
    schema: int
    format: int
    minimum: int
    library: str
    size: int
    log: int
    free: int
    owner: int | None
    since: Wall | None
    sound: bool

    @property
    def too_new(self) -> bool:
        """Whether this version must not use the file."""
        return self.format > FORMAT or self.minimum > PROTOCOL


def examine(path: Path) -> Examined:
    """Read all of the file and judge it; nothing is changed. Raises StoreError if it cannot be read at all."""
    place = Place.of(path)
    reader = open_reader(place, None)
    try:
        damage, (schema, file_format, minimum) = check_integrity(reader), _versions(reader, place)
    except apsw.Error as error:
        raise translate(error, "examining") from error
    finally:
        shut(reader)
    plate = read_nameplate(place)
    lives = plate is not None and _lives(plate.pid)
    log = place.database.with_name(f"{place.database.name}-wal")
    return Examined(
        damage, schema, file_format, minimum, apsw.sqlite_lib_version(),
        place.database.stat().st_size, log.stat().st_size if log.exists() else 0, LocalHost().free(place.folder),
        owner=plate.pid if plate is not None and lives else None,
        since=plate.since if plate is not None and lives else None,
        sound=plate is None or plate.sound,
    )  # fmt: skip


def _versions(reader: apsw.Connection, place: Place) -> tuple[int, int, int]:
    queries = load_queries("ganger.databases.sqlite", "queries")
    if "ownership" not in {name for (name,) in reader.execute(queries["list_tables"])}:
        raise StoreNotADatabase(f"{place.database} is not a database of ours: name another file")
    file_format, minimum = next(iter(reader.execute(queries["read_ownership"])))
    return int(reader.pragma("user_version") or 0), file_format, minimum


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
