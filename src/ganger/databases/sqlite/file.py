"""The database file in the hands of its owner: opened, checked, migrated, prepared, checkpointed, revived.

What can go wrong, and why this is right:

A failed fsync. The kernel may drop the pages and say nothing the second time. So the connection that met an IO error
is never asked again: it is closed and a new one is opened, after a full checkpoint (which writes and syncs everything
that is known to be good into the database and empties the log) and a quick check. A second connection, the keeper,
stays open meanwhile: it keeps the log's index alive, and with it the knowledge of where the last *acknowledged*
commit ends. Without it the new connection would read the log from the file and find there, whole in the page cache
and perhaps never on disk, the very commit that failed; everything appended behind it would be lost with it at the
next power cut. If the process dies before it could do so, the nameplate tells the heir to do it.

A dead owner. It may have written a commit and died before the fsync. The heir finds that commit valid and would
answer from it, so it commits something of its own first (its ownership): the fsync of that makes the log durable
up to there, before anybody gets an answer.

A second writer. The owner's connection alone writes and checkpoints. Readers are query-only and never checkpoint, also
not when they close.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import apsw

from ganger.core.errors import GangerError, StoreBroken, StoreFull, StoreNewerVersion, StoreNotADatabase
from ganger.databases.sqlite.admitting import identify, tell_replaced
from ganger.databases.sqlite.checksums import check_head, find_layer, keep_room
from ganger.databases.sqlite.connecting import PATIENCE, connect, open_reader, shut
from ganger.databases.sqlite.desk import Desk
from ganger.databases.sqlite.errors import translate
from ganger.databases.sqlite.fork import keep_for_ever
from ganger.databases.sqlite.keeping import keep_damaged_log
from ganger.databases.sqlite.migrate import migrate
from ganger.databases.sqlite.operation import Session
from ganger.databases.sqlite.place import Place, explain
from ganger.databases.sqlite.receipts import keep_receipts_of
from ganger.databases.sqlite.reserve import Reserve
from ganger.databases.sqlite.runway import Runway
from ganger.databases.sqlite.versions import FORMAT
from ganger.databases.sqlite.watching import Displaced, Watch
from ganger.databases.statements import load_queries
from ganger.runtime.disk import sync_folder


class OwnedFile:
    """The one connection that writes. Used on the owner's thread alone.

    `report` is told whether the file is sound: False when the disk failed, True when it was checked since.
    """

    def __init__(
        self, desk: Desk, reserve: Reserve, watch: Watch, report: Callable[[bool], None], *, creates: bool
    ) -> None:
        self._place = desk.place
        self._charter = desk.charter
        self._clock = desk.clock
        self._limits = desk.limits
        self._probe = desk.probe
        self._telemetry = desk.telemetry
        self._reserve = reserve
        self._watch = watch
        self._creates = creates
        self._epoch = 0
        self._report = report
        self._keeper: apsw.Connection | None = None
        self._runway = Runway(desk.place, _PAGE, 2 * desk.limits.checkpoint_pages)
        self._pages = 0
        self._checkpointed = 0
        self.queries = load_queries("ganger.databases.sqlite", "queries")
        self.poisoned = False
        self.state: Any = None
        self.connection: apsw.Connection

    def open(self, *, suspect: bool) -> None:
        """Open, or raise why not. A suspect file is checked before it is served."""
        try:
            self._open(suspect)
        except StoreFull:
            if not self._reserve.release():
                raise
            self._open(suspect=True)
        self._reserve.look(self._clock.now())

    def _open(self, suspect: bool) -> None:
        if self._creates:
            _create_private(self._place)
        elif not _size_of(self._place):
            raise tell_replaced(self._place.database)
        meant = identify(self._place.database)
        check_head(self._place.database)
        keep_damaged_log(self._place, self._clock, self._telemetry)
        self.connection = connect(self._place, self._charter.vfs, create=False)
        try:
            with self._translated("opening"):
                self._set_up(suspect)
        except BaseException:
            shut(self.connection)
            raise
        self._watch.begin()
        if identify(self._place.database) != meant:
            raise tell_replaced(self._place.database)
        self._creates = False
        self.poisoned = False

    def _set_up(self, suspect: bool) -> None:
        self._identify()
        self._runway.reset()
        if self._charter.vfs is None and find_layer() and not self.connection.pragma("page_count"):
            keep_room(self.connection)
        _configure(self.connection)
        self.connection.set_wal_hook(self._note_pages)
        if suspect:
            self._verify()
        self._migrate()
        _sync_folder(self._place)
        if self._keeper is None:
            self._keeper = open_reader(self._place, self._charter.vfs)
        self._prepare()

    def _identify(self) -> None:
        found = self.connection.pragma("application_id")
        tables = [name for (name,) in self.connection.execute(self.queries["list_tables"])]
        if found != self._charter.application_id and (found or tables):
            raise StoreNotADatabase(
                f"{self._place.database} is the database of another program: name another file",
                path=str(self._place.database),
            )
        if "ownership" in tables:
            self._refuse_newer()

    def _refuse_newer(self) -> None:
        for file_format, minimum in self.connection.execute(self.queries["read_ownership"]):
            if file_format > FORMAT or minimum > self._charter.protocol:
                raise StoreNewerVersion(
                    f"{self._place.database} was used by a newer version (it asks for at least {minimum}, "
                    f"this one is {self._charter.protocol}): upgrade this program",
                    minimum=minimum,
                    protocol=self._charter.protocol,
                )

    def _verify(self) -> None:
        _rewrite_log(self._place, self._charter.vfs)
        # The checkpoint first: the pages that the log holds are written and synced anew, whatever the disk forgot.
        self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        found = [text for (text,) in self.connection.execute("PRAGMA quick_check")]
        if found != ["ok"]:
            raise StoreBroken(f"the database is damaged: {found[0]}", path=str(self._place.database))

    def _migrate(self) -> None:
        charter = self._charter
        with self._transaction() as session:
            for name in ("create_migration", "create_unit", "create_ownership"):
                self.connection.execute(self.queries[name])
            self.connection.execute(
                self.queries["forget_other_boots"], (self._clock.boot_id(), keep_receipts_of(self._place.database))
            )
            ownership = {
                "format": FORMAT,
                "protocol": charter.protocol,
                "minimum": charter.minimum,
                "boot": self._clock.boot_id(),
                "wall": session.wall,
            }
            self.connection.execute(self.queries["take_ownership"], ownership)
            self._epoch = self._read_epoch()
            migrate(self.connection, charter.migrations, self.queries, session.wall)
            self.connection.pragma("application_id", charter.application_id)
        self._probe("owner.migrated")

    def _prepare(self) -> None:
        with self._transaction() as session:
            self.state = self._charter.prepare(session)
        self._probe("owner.prepared")

    @contextmanager
    def _transaction(self) -> Iterator[Session]:
        self.connection.execute("BEGIN IMMEDIATE")
        session = Session(self.connection, self._clock.now(), self._clock.wall(), None)
        try:
            yield session
            session.flush()
            self.connection.execute("COMMIT")
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise translate(error, doing, self.connection) from error

    def _read_epoch(self) -> int:
        return int(self.connection.execute(self.queries["read_epoch"]).get)

    def check_epoch(self) -> None:
        """In a transaction: Displaced if another process has become the owner since."""
        if self._read_epoch() != self._epoch:
            raise Displaced("another process owns the file")

    def revive(self) -> None:
        """Before a group: a poisoned file is opened anew, or StoreBroken is raised again."""
        if self.poisoned:
            self._open(suspect=True)
            self._report(True)
            self._probe("file.reopened")

    def poison(self) -> None:
        """The connection met an error of the disk: it is never used again."""
        if not self.poisoned:
            self.poisoned = True
            self._report(False)
            shut(self.connection)

    def _note_pages(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._pages = pages
        self._checkpointed = min(self._checkpointed, pages)
        return apsw.SQLITE_OK

    @property
    def log_is_short(self) -> bool:
        """Would one of the next commits make the file of the log longer?"""
        return not self.poisoned and not self._reserve.full and self._runway.is_short(self._pages)

    def lengthen_log(self, *, is_idle: bool) -> None:
        """Make room for the next commits, when the last was answered; `is_idle`: nobody waits for one."""
        self._runway.lay(self._pages, syncs=is_idle)

    def checkpoint_due(self, *, waiting: bool) -> bool:
        """Whether the log is long enough to be worth it; twice as long while somebody waits."""
        return not self.poisoned and self._fresh_pages >= self._enough_pages * (2 if waiting else 1)

    @property
    def _fresh_pages(self) -> int:
        return self._pages - self._checkpointed

    @property
    def _enough_pages(self) -> int:
        # What is left of a full disk must not go into a log that could be used again.
        scarce = self._limits.reserve_bytes // _PAGE // 8
        return min(self._limits.checkpoint_pages, scarce) if self._reserve.full else self._limits.checkpoint_pages

    @property
    def owed(self) -> int:
        """By how many bytes the database may grow when the log is written back."""
        return self._fresh_pages * _PAGE

    def make_room(self) -> None:
        """Write the log back, if there is anything in it, so that it can be used again without growing."""
        if not self.poisoned and self._fresh_pages:
            self.checkpoint()

    def checkpoint(self) -> None:
        """Write the log back into the database. Readers that look at old pages only delay the end of it."""
        self._probe("checkpoint.before")
        long = self._pages >= 4 * self._limits.checkpoint_pages
        try:
            with self._translated("checkpoint"):
                self._write_back(apsw.SQLITE_CHECKPOINT_RESTART if long else apsw.SQLITE_CHECKPOINT_PASSIVE)
        except StoreFull:
            self._reserve.release()
        except GangerError:
            self.poison()
        self._watch.note_written()
        self._probe("checkpoint.after")

    def _write_back(self, mode: int) -> None:
        # A reader may hold the old pages: then the log grows a little more, and is tried again.
        self.connection.set_busy_timeout(_PATIENCE_WITH_READERS)
        with suppress(apsw.BusyError):
            self.connection.wal_checkpoint(mode=mode)
        self.connection.set_busy_timeout(PATIENCE)
        self._checkpointed = self._pages

    def close(self, *, last: bool) -> None:
        """Close, however far the opening came; idempotent.

        The last one on the file leaves everything in the database itself, and no log.
        """
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        shut(keeper)
        try:
            if last and not self.poisoned:
                with self._translated("closing"):
                    self._write_back(apsw.SQLITE_CHECKPOINT_TRUNCATE)
                    self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        finally:
            shut(self.connection)

    def abandon(self) -> None:
        """In a forked child: never touch the parent's connections again, not even to free them."""
        for connection in (self.connection, self._keeper):
            keep_for_ever(connection)


_PAGE: Final = 4096
_PIECE: Final = 1 << 16
_SYNCHRONOUS: Final = "full"
_PATIENCE_WITH_READERS: Final = 50


def _size_of(place: Place) -> int:
    return place.database.stat().st_size if place.database.exists() else 0


def _rewrite_log(place: Place, vfs: str | None) -> None:
    """Write the log onto itself and sync it: what a failed sync left in the cache alone is on the disk then."""
    if not place.log.exists():
        return
    log = apsw.VFSFile(vfs or "", str(place.log), [apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_READWRITE, 0])
    try:
        size = log.xFileSize()
        for offset in range(0, size, _PIECE):
            log.xWrite(log.xRead(min(_PIECE, size - offset), offset), offset)
        log.xSync(apsw.SQLITE_SYNC_FULL)
    finally:
        log.xClose()


def _configure(connection: apsw.Connection) -> None:
    """Durable, or not at all: what matters is read back."""
    connection.pragma("page_size", _PAGE)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", _SYNCHRONOUS)
    connection.pragma("cache_size", -65_536)
    connection.pragma("temp_store", 2)
    connection.pragma("mmap_size", 0)
    connection.pragma("journal_size_limit", 64 << 20)
    connection.pragma("foreign_keys", False)
    found = (connection.pragma("journal_mode"), connection.pragma("synchronous"))
    if found != ("wal", 2):
        raise StoreBroken(f"SQLite does not keep its log as it must (journal_mode, synchronous = {found})")


def _sync_folder(place: Place) -> None:
    """A new file is there after a power cut only if its folder was synced."""
    try:
        sync_folder(place.folder)
    except OSError as error:
        raise explain(error, place) from error


def _create_private(place: Place) -> None:
    """A new database is for this user alone; its log gets the same mode. One that is there keeps the mode it has."""
    # Only if it is new: to open and close a file that SQLite has open in this process would drop its locks.
    try:
        os.close(os.open(place.database, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise explain(error, place) from error
