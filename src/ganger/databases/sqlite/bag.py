"""A bag of letters: units of one process that are safe on disk before the owner has seen them.

Whoever hands in work and needs no answer wants to know one thing: that it will not be lost. To ask the owner costs a
way there and back besides the sync. So a process may write its unit into a bag of its own, which is a file beside the
database, and send it to the owner without waiting. What is in a bag will be run; the receipts say what was.

What can go wrong, and why this is right:

The process dies. Its lock on the bag goes with it, and the owner runs whatever in it has no receipt. The owner dies
first: the process sends its letters again, as it does with every unit, and the next owner also reads every bag that it
finds, because a process may be stopped. Both name the same identity, so nothing is run twice.

A sync that grows a file costs twice as much, so the file is filled with zeros ahead of the letters. Letters follow each
other from the beginning; when all that were written are run the next one is written to the beginning again. Each has
a checksum over everything but itself, and a number that grows: a torn letter, or the rest of an older one, ends the
reading. A letter that was acknowledged is whole, and so is everything before it.

A receipt must outlive the letter that it is for, or the letter would be run again: as long as a bag is there nobody
forgets the receipts of its client.
"""

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ganger.core.errors import StoreBroken
from ganger.databases.sqlite.place import Place
from ganger.databases.sqlite.unit import ClientId
from ganger.databases.sqlite.wire import Call, Malformed, unpack
from ganger.runtime.disk import sync_folder

_CHECK: Final = struct.Struct(">I")
_LENGTH: Final = struct.Struct(">I")
_AROUND: Final = 256
"""What a letter has besides its request, at most."""
_STRETCH: Final = 1 << 18
_FULL: Final = 1 << 22


class Bag:
    """The letters of this process. Used under a lock; the file is made with the first letter."""

    __slots__ = ("_end", "_failed", "_file", "_length", "_path", "_place")

    def __init__(self, place: Place, client: ClientId) -> None:
        self._place = place
        self._path = place.bag(client)
        self._file = -1
        self._length = 0
        self._end = 0
        self._failed = False

    @property
    def is_full(self) -> bool:
        """No more fits before it is emptied."""
        return self._end >= _FULL

    def empty(self) -> None:
        """All its letters were run: the next one may be written over the first."""
        self._end = 0

    def make_room(self, size: int) -> bool:
        """Lay out space for a letter with a request of this size; False if there is none to be had."""
        end = self._end + size + _AROUND
        if end <= self._length and not self._failed:
            return self._end < _FULL
        try:
            self._reach(end)
        except OSError:
            return False
        return self._end < _FULL

    def _reach(self, end: int) -> None:
        if self._failed:
            raise OSError("the disk failed under this bag")
        if self._file < 0:
            self._make(end)
        elif end > self._length:
            self._stretch(end)

    def put(self, frame: bytes) -> None:
        """Write a packed call behind the others, into space that was laid out: now it survives whatever happens.

        StoreBroken: the disk failed, and it may or may not be there.
        """
        letter = _CHECK.pack(zlib.crc32(frame)) + frame
        try:
            if os.pwrite(self._file, letter, self._end) != len(letter):
                raise OSError("it was written in part")
        except OSError as error:
            self._failed = True
            raise StoreBroken(f"a letter could not be written to {self._path}: {error}") from error
        self._end += len(letter)

    def _make(self, end: int) -> None:
        made = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DSYNC | os.O_CLOEXEC, 0o600)
        try:
            _give_to_owner_of(self._place.database, made)
            fcntl.flock(made, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A collector may have come before the lock, and have taken the empty file for one that was left behind.
            if not os.path.samestat(os.stat(self._path), os.fstat(made)):
                raise OSError("the bag was taken away")
            self._file = made
            self._stretch(end)
            # Behind the stretch: where that has brought the journal of the file system to the disk, this is nothing.
            sync_folder(self._place.folder)
        except OSError:
            self._file, self._length = -1, 0
            os.close(made)
            self._path.unlink(missing_ok=True)
            raise

    def _stretch(self, end: int) -> None:
        self._length = self._end + os.pwrite(self._file, bytes(end - self._end + _STRETCH), self._end)
        if self._length < end:
            raise OSError("a bag could not be made longer")

    def close(self, *, remove: bool) -> None:
        """Idempotent. Unless it is removed the owner runs what it finds in it."""
        if self._file >= 0:
            if remove and not self._failed:
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1


def _give_to_owner_of(database: Path, bag: int) -> None:
    """Whoever may own the file must be able to read the bag: the user whose database it is, or root."""
    user = database.stat()
    if user.st_uid != os.geteuid():
        os.fchown(bag, user.st_uid, user.st_gid)


def read_letters(content: bytes) -> Iterator[Call]:
    """The letters of a bag, as far as they are whole."""
    start, last = 0, 0
    while (end := _end_of_letter(content, start)) is not None:
        call = _open_letter(content[start + _CHECK.size : end])
        if call.seq <= last:
            return
        yield call
        start, last = end, call.seq


def _end_of_letter(content: bytes, start: int) -> int | None:
    """Where the letter that begins here ends; None if there is none."""
    body = start + _CHECK.size + _LENGTH.size
    if body > len(content):
        return None
    end = body + int(_LENGTH.unpack_from(content, start + _CHECK.size)[0])
    if end > len(content) or _CHECK.unpack_from(content, start)[0] != zlib.crc32(content[start + _CHECK.size : end]):
        return None
    return end


def _open_letter(frame: bytes) -> Call:
    try:
        opened = unpack(frame)
    except Malformed as error:
        raise StoreBroken(f"a bag holds what is no letter: {error}") from error
    if not isinstance(opened, Call):
        raise StoreBroken(f"a bag holds {type(opened).__name__}, which is no letter")
    return opened
