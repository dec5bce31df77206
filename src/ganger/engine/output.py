"""Data and output of tasks: small ones lie in the store, large ones in blobs; a reader sees one stream by offset."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import NamedTuple

from ganger.core import names
from ganger.core.errors import BlobMissing, PayloadTooLarge
from ganger.core.ids import Fence, TaskId
from ganger.core.lease import Lease
from ganger.engine.blob import BlobRef, Blobs, parse_hash
from ganger.engine.checks import LATEST, SPEC, check_data_key, check_size, check_whole
from ganger.engine.limits import Limits
from ganger.engine.renew import write_one
from ganger.engine.store import Chunk, Datum, Note, Store, Value


class Part(NamedTuple):
    """Bytes from `start` on; `size` is that of the whole so far, `ended` says that nothing will be added any more."""

    body: bytes
    start: int
    size: int
    ended: bool


class Places(NamedTuple):
    """Where data lie."""

    store: Store
    blobs: Blobs | None
    limits: Limits


Content = bytes | BlobRef | AsyncIterator[bytes]
"""What becomes a value: here, safe in the blobs already, or on its way."""


async def put_data(places: Places, writer: Note, key: str, content: Content, once: bool) -> None:
    """Keep a named value. What is large, or comes in pieces, becomes a blob before the row names it."""
    datum = (await make_datum(places, key, content))._replace(only_if_unset=once)
    await write_one(places.store, writer._replace(datum=datum), f"the value {key!r}")


async def keep(places: Places, content: AsyncIterator[bytes]) -> bytes | BlobRef:
    """Take content in: what is small is given back, what is large is safe as a blob and is never whole in memory."""
    head = bytearray()
    async for piece in content:
        head += piece
        if len(head) > places.limits.inline:
            return await _need(places.blobs).put(_follow(bytes(head), content))
    return bytes(head)


async def _follow(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield head
    async for piece in rest:
        yield piece


async def make_born_datum(places: Places, key: str, content: Content) -> Datum:
    """A value that a task is born with; its spec too, if that is a blob."""
    if key == SPEC and isinstance(content, BlobRef):
        return Datum(SPEC, blob=content.hash, size=content.size)
    return await make_datum(places, key, content)


async def make_datum(places: Places, key: str, content: Content) -> Datum:
    """The value as a store keeps it; what is large is a blob that is already safe."""
    check_data_key(key)
    if isinstance(content, BlobRef):
        return Datum(key, blob=content.hash, size=content.size)
    if isinstance(content, bytes) and (places.blobs is None or len(content) <= places.limits.inline):
        check_size(key, content, places.limits.payload)
        return Datum(key, content, size=len(content))
    ref = await _need(places.blobs).put(content)
    return Datum(key, blob=ref.hash, size=ref.size)


def _need(blobs: Blobs | None) -> Blobs:
    if blobs is None:
        raise PayloadTooLarge("this engine has no place for blobs: give it one, or send less than the limit")
    return blobs


async def append_output(places: Places, lease: Lease, stream: str, start: int, body: bytes) -> None:
    """Keep output of the attempt from `start` on. The same bytes sent twice are kept once."""
    names.check("stream", stream)
    check_whole("start", start, 0, LATEST)
    if places.blobs is None or len(body) <= places.limits.inline:
        check_size("output", body, places.limits.payload)
        chunk = Chunk(stream, start, body, size=len(body))
    else:
        ref = await places.blobs.put(body)
        chunk = Chunk(stream, start, blob=ref.hash, size=ref.size)
    await write_one(places.store, Note(lease.task, lease.fence, chunk=chunk), "output")


class Wish(NamedTuple):
    """At most `most` bytes of one value of one task; for output, of that attempt or the newest that has some."""

    task: TaskId
    key: str
    start: int
    most: int
    fence: Fence | None = None


async def read(places: Places, wish: Wish) -> Part:
    """Bytes of a datum or stream, wherever its pieces lie. Fewer than wished only at its end."""
    check_whole("start", wish.start, 0, LATEST)
    check_whole("most", wish.most, 1, LATEST)
    pieces: list[bytes] = []
    offset, end = wish.start, wish.start + wish.most
    while True:
        value = await places.store.value(wish.task, wish.key, offset, end - offset, wish.fence)
        piece = await _piece(places.blobs, value, end - offset)
        pieces.append(piece)
        offset += len(piece)
        if not piece or offset >= end or offset >= value.size:
            return Part(b"".join(pieces), wish.start, value.size, value.ended)


async def _piece(blobs: Blobs | None, value: Value, most: int) -> bytes:
    if value.blob is None:
        return (value.body or b"")[:most]
    name = parse_hash(value.blob)
    size = await _need(blobs).size(name)
    if size is None:
        raise BlobMissing(f"blob {name} is not where it should be", hash=name)
    async with aclosing(_need(blobs).read(BlobRef(name, size), value.start, most)) as pieces:
        return b"".join([piece async for piece in pieces])


async def read_whole(places: Places, task: TaskId, key: str) -> bytes:
    """All of a value that must not be larger than a payload; PayloadTooLarge if it is."""
    part = await read(places, Wish(task, key, 0, places.limits.payload + 1))
    check_size(key, part.body, places.limits.payload)
    return part.body
