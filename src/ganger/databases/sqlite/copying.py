"""A copy of a database that others use meanwhile.

What can go wrong, and why this is right: the copy is made on a connection that only reads, inside one read transaction,
so it is the state after one commit, whole, and nobody waits for it (the owner's log grows until it ends). It is made
beside its place under another name, read back by `integrity_check`, synced, and only then given its name; a name that
is taken is refused. So whatever bears the name is a copy that was found sound.

The letters that are safe and not yet in the database are copied before it, as bags of the copy. A letter that is run
meanwhile is in both, and its receipt is in the copy of the database: whoever owns the copy does not run it again. If
the database cannot be copied they are taken away again.

What another store has left at the place would become part of the copy: SQLite plays any log into the database beside
it, and letters of long ago, whose receipts are forgotten, would be run again. So a log is refused there, and so are
bags, unless a store is in use there: the bags of those who use it are theirs.
"""

import errno
import os
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import apsw

from ganger.core.errors import Conflict, StoreBroken, StoreReplaced
from ganger.databases.sqlite.bag import read_bag
from ganger.databases.sqlite.checksums import find_layer, has_checksums, keep_room
from ganger.databases.sqlite.connecting import open_reader, shut
from ganger.databases.sqlite.errors import translate
from ganger.databases.sqlite.nameplate import read_nameplate
from ganger.databases.sqlite.place import Place, find_bags
from ganger.runtime.disk import opened, sync_folder, translated, write_whole

_PAGES: Final = 4_096
_DRAFT: Final = "-draft"
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


def copy_database(source: Path, target: Path) -> int:
    """Copy the database to a path where nothing is; how many bytes it has. It is sound and durable when this returns.

    Raises Conflict if something is there already, StoreBroken if the copy is damaged, and StoreError.
    """
    if target.exists():
        raise Conflict(f"there is something at {target}: name another place, or move it away", path=str(target))
    draft = target.with_name(target.name + _DRAFT)
    with translated(f"make the copy {target}"):
        draft.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            _fill(Place.of(source), draft)
            return _publish(draft, target)
        finally:
            draft.unlink(missing_ok=True)


def refuse_leftovers(target: Path) -> None:
    """Conflict if something of another store is at the place of a copy that is to be."""
    place = Place.of(target)
    if not place.folder.is_dir():
        return
    bags = [] if place.lock.exists() else place.bags()
    for path in (place.database, place.log, *bags):
        if path.exists():
            raise Conflict(f"there is something at {path}: name another place, or move it away", path=str(path))


def copy_with_bags(source: Path, target: Path) -> tuple[int, list[Path]]:
    """As `copy_database`, with every letter that is whole; and the bags in which some are not."""
    made: list[Path] = []
    try:
        damaged = _copy_bags(source, target, made)
        return copy_database(source, target), damaged
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        raise


def _fill(place: Place, draft: Path) -> None:
    plate = read_nameplate(place)
    if plate is not None and plate.names_another(place):
        said = f"beside {place.database} is the log of another database: open the store once, or move {place.log} away"
        raise StoreReplaced(said, path=str(place.database))
    reader = open_reader(place, None)
    try:
        with closing(apsw.Connection(str(draft), vfs=find_layer())) as copy:
            if has_checksums(reader):
                _begin_with_checksums(copy)
            _copy(reader, copy)
            found = check_integrity(copy)
    except apsw.Error as error:
        raise translate(error, "copying") from error
    finally:
        shut(reader)
    if found:
        raise StoreBroken(f"the copy is damaged, and so is what it was made from: {found[0]}", path=str(place.database))


def _begin_with_checksums(copy: apsw.Connection) -> None:
    """The layer looks for the room of checksums in the first page: it must have seen one before others are written."""
    keep_room(copy)
    copy.execute("CREATE TABLE first (page INTEGER)")


def _copy_bags(source: Path, target: Path, made: list[Path]) -> list[Path]:
    """Copy every letter that is whole; the bags in which some are not. Those that were made are added to `made`."""
    damaged = []
    for path in find_bags(Path(os.path.realpath(source))):
        client = path.name.rpartition("-")[2]
        with translated(f"copy the bag {path}"), suppress(FileNotFoundError):
            try:
                letters = read_bag(path, source)
            except StoreBroken:
                damaged.append(path)
                continue
            if letters.damage:
                damaged.append(path)
            if letters.calls:
                _write(target.with_name(f"{target.name}-bag-{client}"), letters.whole, made)
    return damaged


def _write(path: Path, content: bytes, bags: list[Path]) -> None:
    try:
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        said = f"there is something at {path}: name another place, or move it away"
        raise Conflict(said, path=str(path)) from None
    bags.append(path)
    try:
        write_whole(made, content)
        os.fsync(made)
    finally:
        os.close(made)


def _copy(reader: apsw.Connection, copy: apsw.Connection) -> None:
    # The read transaction holds one snapshot over all steps: without it each commit of the owner would begin it anew.
    reader.execute("BEGIN")
    reader.pragma("schema_version")
    with copy.backup("main", reader, "main") as backup:
        while not backup.done:
            backup.step(_PAGES)
    reader.execute("COMMIT")


def check_integrity(connection: apsw.Connection) -> list[str]:
    """What SQLite finds wrong in a database; nothing if it is sound."""
    found = [str(text) for (text,) in connection.execute("PRAGMA integrity_check(10)")]
    return [] if found == ["ok"] else found


def _publish(draft: Path, target: Path) -> int:
    with opened(draft, os.O_RDONLY) as fd:
        os.fsync(fd)
        size = os.fstat(fd).st_size
    _name(draft, target)
    sync_folder(target.parent)
    return size


def _name(draft: Path, target: Path) -> None:
    """A link, unlike a rename, never replaces what somebody put there meanwhile; some filesystems have none."""
    try:
        os.link(draft, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        draft.rename(target)
