"""What follows the content in an object's file: sums of its blocks, size, hash and birth, and a sum of all that.

One file holds both, so that content and sums become visible and durable in the same instant. Read from the end, the
seal says how long the file must be: a file that was cut short, lengthened or swapped for another is noticed before
its content is looked at.
"""

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ganger.core.clock import Moment, Wall
from ganger.core.errors import BlobCorrupt
from ganger.engine.blob import Birth, BlobHash, BlobRef
from ganger.engine.blobs.blocks import SUM_SIZE, count_blocks

_MAGIC: Final = b"gangerB1"
_FIELDS: Final = struct.Struct(">32sQqq32s8s")
_TAIL: Final = _FIELDS.size + SUM_SIZE
_EMPTY: Final = hashlib.sha256().digest()

Read = Callable[[int, int], bytes]
"""Bytes of the file: how many, from where."""


@dataclass(frozen=True, slots=True)
class Seal:
    ref: BlobRef
    birth: Birth
    sums: bytes

    def sum(self, number: int) -> bytes:
        return self.sums[number * SUM_SIZE : (number + 1) * SUM_SIZE]


def pack_seal(seal: Seal) -> bytes:
    name, born = bytes.fromhex(seal.ref.hash), seal.birth
    fields = _FIELDS.pack(name, seal.ref.size, born.wall, born.now, born.boot, _MAGIC)
    return seal.sums + fields + hashlib.sha256(seal.sums + fields).digest()


def read_seal(name: BlobHash, length: int, read: Read) -> Seal:
    """The seal at the end of a file of that length, or BlobCorrupt."""
    if length < _TAIL:
        raise _damaged(name, "the file is cut short")
    tail = read(_TAIL, length - _TAIL)
    seal = _unpack(tail[: _FIELDS.size])
    if seal is None or seal.ref.size + count_blocks(seal.ref.size) * SUM_SIZE + _TAIL != length:
        raise _damaged(name, "the file does not end as it should")
    seal = Seal(seal.ref, seal.birth, read(length - _TAIL - seal.ref.size, seal.ref.size))
    if hashlib.sha256(seal.sums + tail[: _FIELDS.size]).digest() != tail[_FIELDS.size :]:
        raise _damaged(name, "its sums are not as they were written")
    if seal.ref.hash != name:
        raise _damaged(name, f"the file holds {seal.ref.hash}")
    if count_blocks(seal.ref.size) < 2 and (seal.sums or _EMPTY).hex() != name:
        raise _damaged(name, "its only sum is not its hash")
    return seal


def open_seal(name: BlobHash, data: bytes) -> Seal:
    """The seal that is these bytes, without the content, or BlobCorrupt."""
    found = _unpack(data[-_TAIL:-SUM_SIZE])
    inside = 0 if found is None else found.ref.size
    return read_seal(name, inside + len(data), lambda size, offset: data[offset - inside : offset - inside + size])


def _unpack(fields: bytes) -> Seal | None:
    if len(fields) != _FIELDS.size:
        return None
    name, size, wall, now, boot, magic = _FIELDS.unpack(fields)
    if magic != _MAGIC:
        return None
    return Seal(BlobRef(BlobHash(name.hex()), size), Birth(Wall(wall), Moment(now), boot), b"")


def _damaged(name: BlobHash, why: str) -> BlobCorrupt:
    return BlobCorrupt(f"blob {name} is damaged: {why}; put its content again to heal it", hash=name)
