"""What the guardian must not forget when it dies: which attempts it began, and how they ended.

What is written outlives the guardian, and what is synced outlives the machine. A beginning is never synced: if it is
lost with the machine, the attempt is lost too. What the node has acknowledged is dropped when the file is written anew.

Each record has a length and a checksum. A record that is cut short can only be the last one, written while the machine
went down: it and what follows count as never written.
"""

import os
import struct
import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from ganger.node.guardian.messages import End, Key

FORMAT: Final = 1
_HEAD: Final = struct.Struct(">II")
_LARGE: Final = 1 << 20


class Opening(msgspec.Struct, frozen=True, tag="opening"):
    format: int


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    task: int
    fence: int
    serial: int

    @property
    def key(self) -> Key:
        return self.task, self.fence


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten"):
    keys: list[Key]


Record = Opening | Begun | End | Forgotten

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Record)


class NewerFormat(Exception):
    """A newer version wrote the journal."""


class Past(NamedTuple):
    """What a journal says: attempts that began and are not known to have ended, and ends not yet acknowledged."""

    begun: dict[Key, Begun]
    ended: dict[Key, End]

    @property
    def serial(self) -> int:
        """The highest that was given out, as far as it matters."""
        serials = [record.serial for record in self.begun.values()] + [end.serial for end in self.ended.values()]
        return max(serials, default=0)


class Journal:
    """Appends records; `commit` writes what was noted since the last one, at once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._notes = bytearray()
        self._size = 0
        self._fd = -1

    def note(self, record: Record) -> None:
        self._notes += _pack(record)

    def commit(self) -> None:
        """OSError: they are not safe, and must not be written again: part of them may be there."""
        notes, self._notes = self._notes, bytearray()
        if notes:
            self._size += _write_whole(self._fd, notes)

    def fileno(self) -> int:
        return self._fd

    @property
    def is_large(self) -> bool:
        return self._size > _LARGE

    def renew(self, begun: Iterable[Begun], ended: Iterable[End]) -> None:
        """Write the file anew with what still counts; the old one counts until the new one is safe."""
        records: list[Record] = [Opening(FORMAT), *begun, *ended]
        draft = f"{self._path}~"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(draft, flags, 0o600)
        try:
            size = _write_whole(fd, b"".join(map(_pack, records)))
            os.fsync(fd)
            os.rename(draft, self._path)
            _sync_folder(os.path.dirname(self._path))
        except BaseException:
            os.close(fd)
            raise
        self.close()
        self._fd, self._size = fd, size

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_whole(fd: int, data: bytes | bytearray) -> int:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    return len(data)


def _pack(record: Record) -> bytes:
    body = _ENCODER.encode(record)
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def read_past(path: str) -> Past:
    """What the journal of a former guardian says; nothing if there is none."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        data = b""
    past = Past({}, {})
    for record in _unpack(data):
        _apply(past, record)
    return past


def _unpack(data: bytes) -> Iterable[Record]:
    at = 0
    while at + _HEAD.size <= len(data):
        size, check = _HEAD.unpack_from(data, at)
        body = data[at + _HEAD.size : at + _HEAD.size + size]
        if len(body) < size or zlib.crc32(body) != check:
            return
        yield _DECODER.decode(body)
        at += _HEAD.size + size


def _apply(past: Past, record: Record) -> None:
    match record:
        case Opening(format=number) if number > FORMAT:
            raise NewerFormat(
                f"the journal has format {number}, and this version knows {FORMAT}: use the newer version"
            )
        case Begun():
            past.begun[record.key] = record
        case End():
            past.begun.pop(record.key, None)
            past.ended[record.key] = record
        case Forgotten(keys=keys):
            for key in keys:
                past.ended.pop(key, None)
        case _:
            return
