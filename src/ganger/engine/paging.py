"""A value read page by page, as if it stood still: a page of what it has become meanwhile is refused.

The version of a value is the hash of its content, which is the name of its blob where it has one. A small value comes
out of the store whole, so its page and its version are of one instant. A blob never changes under its name. Nothing is
kept for a reader between two pages.
"""

import hashlib
from contextlib import aclosing
from typing import NamedTuple

from ganger.core.errors import BlobMissing, PayloadTooLarge, StalePage
from ganger.engine.blob import BlobHash, BlobRef, parse_hash
from ganger.engine.checks import LATEST, check_whole
from ganger.engine.output import Places, Wish


class DataPage(NamedTuple):
    """Bytes of a value from `start` on. A key that is not there has no version."""

    body: bytes
    start: int
    size: int
    version: str | None


async def read_page(places: Places, wish: Wish, version: str | None) -> DataPage:
    """A part of the value, of that version if one is given; StalePage if the value is another by now."""
    check_whole("start", wish.start, 0, LATEST)
    check_whole("most", wish.most, 1, LATEST)
    value = await places.store.value(wish.task, wish.key, 0, places.limits.payload + 1)
    now = value.blob if value.blob is not None else _hash(value.body)
    if version is not None and version != now:
        raise StalePage(f"the value {wish.key!r:.80} has changed since that page: begin again", key=wish.key)
    if value.blob is not None:
        return await _page_of_blob(places, parse_hash(value.blob), wish.start, wish.most)
    body = value.body or b""
    return DataPage(body[wish.start : wish.start + wish.most], wish.start, len(body), now)


def _hash(body: bytes | None) -> str | None:
    return None if body is None else hashlib.sha256(body).hexdigest()


async def _page_of_blob(places: Places, name: BlobHash, start: int, most: int) -> DataPage:
    if places.blobs is None:
        raise PayloadTooLarge("this engine has no place for blobs: give it one")
    size = await places.blobs.size(name)
    if size is None:
        raise BlobMissing(f"blob {name} is not where it should be", hash=name)
    async with aclosing(places.blobs.read(BlobRef(name, size), start, most)) as pieces:
        return DataPage(b"".join([piece async for piece in pieces]), start, size, name)
