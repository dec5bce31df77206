"""A bag of letters: units of one process that are safe on disk before the owner has seen them.

Whoever hands in work and needs no answer wants to know one thing: that it will not be lost. To ask the owner costs a
way there and back besides the sync. So a process may write its unit into a bag of its own, which is a file beside the
database, and send it to the owner without waiting. What is in a bag will be run; the receipts say what was.

What can go wrong, and why this is right:

The process dies. Its lock on the bag goes with it, and the owner runs whatever in it has no receipt. The owner dies
first: the process sends its letters again, as it does with every unit, and the next owner also reads every bag that it
finds, because a process may be stopped. Both name the same identity, so nothing is run twice.

A sync that grows a file costs twice as much, so the file is filled with zeros ahead of the letters. Letters follow each
other from the beginning; when all that were written are run the next one is written to the beginning again. Behind the
last one is an end mark, which the next one overwrites: so it is known how far the letters go, and what lies behind it
is of an earlier round.

A bit flips, or a sector is lost. The head of a letter says where it begins, how long it is and which number it has, and
has a checksum of its own; so has what it holds. A letter that does not fit its checksum is passed over, and whatever is
whole behind it is run: if its head is whole that says where the next one begins, else a head or an end mark with a
higher number is looked for. What is damaged is kept and told. A letter that is cut off, with neither a letter nor an
end mark behind it, was being written when its process died, and nobody was told that it is safe: that is no damage. The
checksums begin with the name of the client, which is random, so no content of a letter can pass for a letter.

A receipt must outlive the letter that it is for, or the letter would be run again: as long as a bag is there nobody
forgets the receipts of its client.

Somebody else puts a file there, or a link to one: what is in a bag is run, so it must be a file of the user whose
database it is, into which nobody else may write. Any other is left alone, and told.
"""

import errno
import fcntl
import os
import stat
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from ganger.core.errors import StoreBroken
from ganger.databases.sqlite.place import Place
from ganger.databases.sqlite.unit import ClientId
from ganger.databases.sqlite.wire import Call, Malformed, unpack
from ganger.runtime.disk import read_whole, sync_folder

_BEGIN: Final = b"Gbg2"
"""How a letter begins: the version of the format is in it."""
_END: Final = b"Gbe2"
_HEAD: Final = struct.Struct(">4sIQII")
"""How it begins, the length of what it holds, its number, the checksum of what it holds, the checksum of the head."""
_MARK: Final = struct.Struct(">4sQI")
"""The end mark: how it begins, the number of the last letter, its checksum."""
_CHECK: Final = struct.Struct(">I")
_AROUND: Final = 256
"""What a letter has besides its request, at most."""
_STRETCH: Final = 1 << 18
_LOOKS: Final = 10
_FULL: Final = 1 << 22
_ROOT: Final = 0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class Bag:
    """The letters of this process. Used under a lock; the file is made with the first letter."""

    __slots__ = ("_end", "_failed", "_file", "_length", "_path", "_place", "_seed")

    def __init__(self, place: Place, client: ClientId) -> None:
        self._place = place
        self._path = place.bag(client)
        self._seed = zlib.crc32(client)
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

    def put(self, seq: int, frame: bytes) -> None:
        """Write a packed call behind the others, into space that was laid out: now it survives whatever happens.

        StoreBroken: the disk failed, and it may or may not be there.
        """
        letter = wrap(seq, frame, self._seed)
        try:
            if os.pwrite(self._file, letter + mark_end(seq, self._seed), self._end) != len(letter) + _MARK.size:
                raise OSError("it was written in part")
        except OSError as error:
            self._failed = True
            raise StoreBroken(f"a letter could not be written to {self._path}: {error}") from error
        self._end += len(letter)

    def _make(self, end: int) -> None:
        made = os.open(
            self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_DSYNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
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


def wrap(seq: int, frame: bytes, seed: int) -> bytes:
    """A packed call as it lies in a bag."""
    head = _HEAD.pack(_BEGIN, len(frame), seq, zlib.crc32(frame, seed), 0)[: -_CHECK.size]
    return head + _CHECK.pack(zlib.crc32(head, seed)) + frame


def mark_end(seq: int, seed: int) -> bytes:
    """What lies behind the last letter."""
    mark = _MARK.pack(_END, seq, 0)[: -_CHECK.size]
    return mark + _CHECK.pack(zlib.crc32(mark, seed))


class Letters(NamedTuple):
    """What a bag holds. `damage` says what is wrong with it, one sentence for each place; nothing if all is well."""

    calls: list[Call]
    damage: list[str]
    whole: bytes
    """The letters that are whole, as they would lie in a bag of their own."""


def read_letters(content: bytes, client: bytes) -> Letters:
    """The letters of a client's bag: all that are whole, also behind one that is not."""
    reading = _Reading(content, zlib.crc32(client))
    start: int | None = 0
    while start is not None:
        start = reading.step(start)
    end = mark_end(reading.last, reading.seed) if reading.calls else b""
    return Letters(reading.calls, reading.damage, b"".join(reading.whole) + end)


def open_bag(path: Path, database: Path) -> int:
    """A descriptor from which the bag is read. FileNotFoundError; StoreBroken: it is none, or not one to be trusted."""
    try:
        bag = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EACCES):
            raise
        raise StoreBroken(f"{path} is not read: {error.strerror}; a bag is a file, and no link") from error
    if (wrong := _distrust(os.fstat(bag), database.stat().st_uid)) is not None:
        os.close(bag)
        raise StoreBroken(f"{path} is not read: {wrong}; if you have put it there, mend that, else remove it")
    return bag


def _distrust(bag: os.stat_result, user: int) -> str | None:
    """Why what lies there may be somebody else's."""
    if not stat.S_ISREG(bag.st_mode):
        return "it is no file"
    if bag.st_uid not in (user, _ROOT):
        return f"it belongs to user {bag.st_uid}, and the database to user {user}"
    if bag.st_mode & _OTHERS_WRITE:
        return f"its mode is {stat.S_IMODE(bag.st_mode):o}, and others may write into it"
    return None


def client_of(path: Path) -> ClientId:
    """Whose bag it is. StoreBroken: nobody's."""
    try:
        return ClientId(bytes.fromhex(path.name.rpartition("-")[2]))
    except ValueError:
        raise StoreBroken(f"{path} has no name of a bag: remove it") from None


def read_bag(path: Path, database: Path) -> Letters:
    """The letters of the bag at this path, whose process may be writing meanwhile. FileNotFoundError, StoreBroken."""
    client, bag = client_of(path), open_bag(path, database)
    try:
        letters = read_opened(bag, client)
        for _ in range(_LOOKS):
            # What looks damaged may be half written: then it looks otherwise the next time.
            if not letters.damage or letters == (again := read_opened(bag, client)):
                break
            letters = again
        return letters
    finally:
        os.close(bag)


def read_opened(bag: int, client: bytes) -> Letters:
    """The letters of a bag that is open, as it is now."""
    return read_letters(read_whole(bag, os.fstat(bag).st_size, 0), client)


class _Reading:
    """Goes through the content of a bag, a letter at a time."""

    def __init__(self, content: bytes, seed: int) -> None:
        self._content = content
        self.seed = seed
        self.last = 0
        self.calls: list[Call] = []
        self.damage: list[str] = []
        self.whole: list[bytes] = []

    def step(self, start: int) -> int | None:
        """Read what begins here; where to go on, or None at the end."""
        if self.last and self._read_mark(start) == self.last:
            return None
        head = self._read_head(start)
        if head is None or head.seq <= self.last:
            return self._look_behind(start, start)
        begin = start + _HEAD.size
        body = self._content[begin : begin + head.length]
        if len(body) < head.length or zlib.crc32(body, self.seed) != head.check:
            return self._look_behind(start, begin, head.seq)
        self._take(head.seq, body)
        return begin + head.length

    def _take(self, seq: int, frame: bytes) -> None:
        try:
            opened = unpack(frame)
        except Malformed as error:
            raise StoreBroken(f"a bag holds what is no letter: {error}") from error
        if not isinstance(opened, Call) or opened.seq != seq:
            raise StoreBroken(f"a bag holds {type(opened).__name__}, which is no letter")
        self.calls.append(opened)
        self.whole.append(wrap(seq, frame, self.seed))
        self.last = seq

    def _look_behind(self, start: int, at: int, seq: int = 0) -> int | None:
        """What begins here is not whole. If the letters go on or end somewhere behind it, it is damaged.

        `seq` is its number, if that is known.
        """
        while (at := self._find(at)) >= 0:
            head, mark = self._read_head(at), self._read_mark(at)
            if (head is not None and head.seq > max(seq, self.last)) or (mark is not None and mark > self.last):
                self.damage.append(f"bytes {start} to {at} are damaged" + (f", letter {seq}" if seq else ""))
                self.last = max(self.last, seq, mark or 0)
                return at
            at += 1
        if start == 0 and not seq and any(self._content):
            self.damage.append("it holds something, and nothing of it is a letter")
        return None

    def _find(self, at: int) -> int:
        """Where the next head or end mark may be; -1 if nowhere."""
        places = [place for sign in (_BEGIN, _END) if (place := self._content.find(sign, at)) >= 0]
        return min(places, default=-1)

    def _read_head(self, start: int) -> "_Head | None":
        head = self._content[start : start + _HEAD.size]
        if len(head) < _HEAD.size:
            return None
        begin, length, seq, check, own = _HEAD.unpack(head)
        is_ours = begin == _BEGIN and own == zlib.crc32(head[: -_CHECK.size], self.seed)
        return _Head(seq, length, check) if is_ours else None

    def _read_mark(self, start: int) -> int | None:
        """The number that the end mark here bears."""
        mark = self._content[start : start + _MARK.size]
        if len(mark) < _MARK.size:
            return None
        begin, seq, own = _MARK.unpack(mark)
        return int(seq) if begin == _END and own == zlib.crc32(mark[: -_CHECK.size], self.seed) else None


class _Head(NamedTuple):
    seq: int
    length: int
    check: int
