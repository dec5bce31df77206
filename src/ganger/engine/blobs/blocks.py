"""Content cut into blocks of 1 MiB, each with its own sum, so that a range can be verified without the rest."""

import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Final

from ganger.core.errors import BadNumber
from ganger.engine.blob import BlobHash

BLOCK: Final = 1 << 20
SUM_SIZE: Final = 32


class Digest:
    """Hashes a stream by blocks and as a whole; the first block, which is often the only one, only once."""

    def __init__(self) -> None:
        self._whole = hashlib.sha256()
        self._size = 0

    def add(self, block: bytes | memoryview) -> bytes:
        """Take the next block, and return its own sum."""
        first = self._size == 0
        self._whole.update(block)
        self._size += len(block)
        return (self._whole.copy() if first else hashlib.sha256(block)).digest()

    def follow(self, block: bytes | memoryview) -> None:
        """Take the next block into the whole alone: its own sum is made beside it."""
        self._whole.update(block)
        self._size += len(block)

    @property
    def hash(self) -> BlobHash:
        return BlobHash(self._whole.hexdigest())

    @property
    def size(self) -> int:
        return self._size


def count_blocks(size: int) -> int:
    return -(-size // BLOCK)


async def recut(content: AsyncIterator[bytes] | bytes) -> AsyncIterator[bytes | memoryview]:
    """The same bytes in blocks of exactly `BLOCK`, the last one shorter; two blocks in memory at most."""
    held: list[memoryview] = []
    room = BLOCK
    async for view in _view(content):
        if not held and len(view) == BLOCK:
            yield view
        elif len(view) < room:
            held.append(view)
            room -= len(view)
        else:
            # Joined once: whoever appends to a buffer, cuts from it and makes bytes of that copies thrice.
            yield b"".join([*held, view[:room]])
            held = [view[room:]]
            room = BLOCK - len(held[0])
    if room < BLOCK:
        yield b"".join(held)


async def _view(content: AsyncIterator[bytes] | bytes) -> AsyncIterator[memoryview]:
    if isinstance(content, bytes):
        for view in _split(content):
            yield view
        return
    async for piece in content:
        for view in _split(piece):
            yield view


def _split(piece: bytes) -> Iterator[memoryview]:
    whole = memoryview(piece)
    for start in range(0, len(whole), BLOCK):
        yield whole[start : start + BLOCK]


def clip(size: int, offset: int, length: int | None) -> range:
    """The positions that a read of that range covers in content of that size."""
    if offset < 0 or (length is not None and length < 0):
        raise BadNumber("a range of a blob begins at 0 or later and is 0 bytes long or longer", offset=offset)
    start = min(offset, size)
    return range(start, size if length is None else min(start + length, size))


def touch(wanted: range) -> range:
    """The numbers of the blocks in which those positions lie."""
    return range(wanted.start // BLOCK, count_blocks(wanted.stop)) if wanted else range(0)


def trim(number: int, block: bytes, wanted: range) -> bytes:
    """The part of that block that was asked for."""
    start = number * BLOCK
    return block[max(0, wanted.start - start) : wanted.stop - start]
