"""Whether the files are still those that this process owns: looked at before each group, and when the kernel has word.

What can go wrong, and why this is right:

The lock file is removed. The lock holds on, on a file that nobody can find, and the next process makes a new one and
locks that. So the owner looks whether the name still leads to what it has locked. In between two may believe to own the
file: the database itself says who is right, because each owner writes a new number into it when it begins, and no group
is committed under an old one.

The database is removed, or another is put in its place (a backup is restored under a running node). Whatever is
committed from then on goes into a file without a name, and is gone with this process. So the owner looks at the names
of the database, of its log and of the log's index before it commits, and tells nobody that something is safe which is
not. A file that is written over in place has the same name and number, but another time of its last change: the owner
alone writes into the database, and knows when it did.

The socket is removed, by somebody who clears away old files: nobody can reach the owner any more, nor become one.

The log or its index is removed. What is in the log is not in the database yet, but the owner still has it open: unless
somebody has made another log by then, it is written into the database.

In any of these cases the owner lets go of everything and begins anew, like any process that opens the file: it may
become the owner again, of what lies there now. One that was removed is not made again by a process that had it open:
whoever asks is told.
"""

import os
from typing import Final, NamedTuple

from ganger.databases.sqlite.notice import Notice
from ganger.databases.sqlite.place import Place
from ganger.databases.sqlite.seat import Seat

EVERY_MS: Final = 500
"""How often it is looked where the kernel says nothing."""


class Displaced(Exception):
    """This process owns the file no more; the text says why.

    `suspect`: what lies there was written over. `saves`: only the names of the log are gone, and it can be saved.
    """

    def __init__(self, why: str, *, suspect: bool = False, saves: bool = False) -> None:
        super().__init__(why)
        self.suspect = suspect
        self.saves = saves


class Files(NamedTuple):
    """The numbers of the database, its log and the log's index in the file system; 0 for one that is not there."""

    database: int = 0
    log: int = 0
    shm: int = 0


class Watch:
    """What the owner knows of its files. Used on the owner's thread alone."""

    __slots__ = ("_database", "_index", "_log", "_place", "_seat", "_written", "files", "notice")

    def __init__(self, place: Place, seat: Seat) -> None:
        self._place = place
        self._seat = seat
        # Made once: a path takes longer to make than to ask about.
        self._database, self._log, self._index = str(place.database), str(place.log), str(place.index)
        self._written: tuple[int, int] | None = None
        self.files = Files()
        self.notice = Notice()

    def begin(self) -> None:
        """The files were opened and are in use."""
        for path in (str(self._place.lock), str(self._place.socket), self._log, self._index):
            self.notice.watch(path)
        self.notice.watch(self._database, writes=True)
        self.files = find_files(self._place)
        self.note_written()

    def note_written(self) -> None:
        """The owner itself wrote into the database."""
        self._written = _times(self._database)

    def check(self) -> None:
        """Displaced if the files are no longer those that were opened."""
        if not self._seat.is_ours():
            raise Displaced("its lock file was removed or replaced")
        if not self._seat.can_be_reached():
            raise Displaced("its socket was removed or replaced")
        files = self.files
        try:
            database = os.stat(self._database)
        except OSError:
            raise Displaced("the database was removed") from None
        if database.st_ino != files.database:
            raise Displaced("another database was put in its place")
        if (database.st_mtime_ns, database.st_size) != self._written:
            raise Displaced("another program wrote into the database", suspect=True)
        log, index = _number(self._log), _number(self._index)
        if log != files.log or index != files.shm:
            saves = log in (0, files.log) and index in (0, files.shm)
            raise Displaced("the log of the database was removed or replaced", saves=saves)


def find_files(place: Place) -> Files:
    """The files that lie there now."""
    return Files(_number(str(place.database)), _number(str(place.log)), _number(str(place.index)))


def _number(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def _times(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
