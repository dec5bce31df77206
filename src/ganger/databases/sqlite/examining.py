"""A look at a database file from outside: whether it is sound, who owns it, which version made it, how much room is.

Looked at are the pages of the database, the log also behind the place where SQLite ceases to read it, the bags, and
what was found damaged before and kept. Others may write meanwhile: what looks damaged is looked at again, and only
what looks the same is.
"""

from pathlib import Path
from typing import Final, NamedTuple

import apsw

from ganger.core.clock import Wall
from ganger.core.errors import GangerError, StoreBroken, StoreNotADatabase
from ganger.databases.sqlite.bag import read_bag
from ganger.databases.sqlite.checksums import check_head, has_checksums
from ganger.databases.sqlite.connecting import open_reader, shut
from ganger.databases.sqlite.copying import check_integrity
from ganger.databases.sqlite.errors import translate
from ganger.databases.sqlite.logfile import read_log
from ganger.databases.sqlite.nameplate import Nameplate, read_nameplate
from ganger.databases.sqlite.place import LocalHost, Place
from ganger.databases.sqlite.versions import FORMAT, PROTOCOL
from ganger.databases.statements import load_queries

_LOOKS: Final = 10


class Examined(NamedTuple):
    """What was found. `damage` is what the integrity check says, nothing if all is well; `schema` the last migration.

    `checked`: its pages have checksums. `bags` are the bags that are damaged, and what is wrong with each; `letters` is
    how many letters all of them hold. `kept` is what was found damaged before. `owner` is the process that has the file
    now, None if nobody has; `sound` is False if it met a failing disk.
    """

    damage: list[str]
    checked: bool
    log_damage: str | None
    bags: dict[Path, str]
    letters: int
    kept: list[Path]
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
    """Read all of the file and judge it; nothing is changed. Raises StoreError if it is no file of ours at all."""
    place = Place.of(path)
    plate = read_nameplate(place)
    log_damage, (bags, letters) = _examine_log(place, plate), _examine_bags(place)
    try:
        damage, checked, (schema, file_format, minimum) = _examine_pages(place)
    except StoreBroken as error:
        damage, checked, (schema, file_format, minimum) = [error.message], False, (0, 0, 0)
    lives = plate is not None and plate.lives()
    return Examined(
        damage, checked, log_damage, bags, letters, place.find_damaged(), schema, file_format, minimum,
        apsw.sqlite_lib_version(), place.database.stat().st_size, _size_of(place.log), LocalHost().free(place.folder),
        owner=plate.pid if plate is not None and lives else None,
        since=plate.since if plate is not None and lives else None,
        sound=plate is None or plate.sound,
    )  # fmt: skip


def _examine_pages(place: Place) -> tuple[list[str], bool, tuple[int, int, int]]:
    """What is wrong with them, whether they have checksums, and the versions. StoreBroken if not even that is told."""
    check_head(place.database)
    reader = open_reader(place, None)
    try:
        return check_integrity(reader), has_checksums(reader), _versions(reader, place)
    except apsw.Error as error:
        raise translate(error, "examining") from error
    finally:
        shut(reader)


def _examine_log(place: Place, plate: Nameplate | None) -> str | None:
    if plate is not None and plate.names_another(place):
        return "it is the log of another database, which was here before: the next that opens the store sets it apart"
    found = read_log(place.log)
    for _ in range(_LOOKS):
        if found.damage is None or found == (again := read_log(place.log)):
            break
        found = again
    return found.damage


def _examine_bags(place: Place) -> tuple[dict[Path, str], int]:
    damaged, letters = {}, 0
    for path in place.bags():
        try:
            read = read_bag(path, place.database)
        except FileNotFoundError:
            continue
        except (GangerError, OSError) as error:
            damaged[path] = str(error)
            continue
        letters += len(read.calls)
        if read.damage:
            damaged[path] = read.damage[0]
    return damaged, letters


def _versions(reader: apsw.Connection, place: Place) -> tuple[int, int, int]:
    queries = load_queries("ganger.databases.sqlite", "queries")
    if "ownership" not in {name for (name,) in reader.execute(queries["list_tables"])}:
        raise StoreNotADatabase(f"{place.database} is not a database of ours: name another file")
    file_format, minimum = next(iter(reader.execute(queries["read_ownership"])))
    return int(reader.pragma("user_version") or 0), file_format, minimum


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
