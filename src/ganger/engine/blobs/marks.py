"""Who reads content in a bucket says so there, where every process sees it.

    readers/<hash>/<stamp>    somebody reads this content, or holds its address; it counts for six hours

What can go wrong, and why this is right. A bucket has no locks. A reader leaves its mark and then looks for the seal;
who removes takes the seal away and then looks for marks. So one of the two sees the other: either the content stays
until the reader is done, or the reader finds nothing, before its first byte. Marks cost two requests, and most reads
come soon after the put. Nobody removes a copy that is younger than six hours; so who reads one that is younger than
three has no mark, and leaves one when he is still reading by then. A mark that is three hours old is followed by
another. One whose reader died counts for some hours more, and is swept.
"""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from ganger.core.errors import StoreError
from ganger.engine.blob import BlobHash
from ganger.engine.blobs.bucket import Bucket
from ganger.engine.blobs.stamp import Stamp, read_stamp

LASTS: Final = 6 * 60 * 60
"""So many seconds a mark counts, and so old is a copy at least that somebody removes."""

_UNSAID: Final = LASTS * 1000 // 2
_FOLDER: Final = "readers/"
_KEY: Final = re.compile(r"readers/[0-9a-f]{64}/([0-9a-f]+)", re.ASCII)


class Mark(NamedTuple):
    name: BlobHash
    stamp: Stamp

    @property
    def path(self) -> str:
        return f"{_FOLDER}{self.name}/{self.stamp.encode()}"


class Marks:
    """The marks in one bucket. `age` is how old a stamp is, in milliseconds."""

    def __init__(self, bucket: Bucket, make_stamp: Callable[[], Stamp], age: Callable[[Stamp], int]) -> None:
        self._bucket = bucket
        self._make_stamp = make_stamp
        self._age = age

    async def leave(self, name: BlobHash) -> Mark:
        """From now on nobody removes this content; it may be gone already."""
        mark = Mark(name, self._make_stamp())
        await self._bucket.put(mark.path, b"")
        return mark

    async def are_on(self, name: BlobHash) -> bool:
        """Does somebody read it, or hold its address?"""
        return any([self._age(stamp) < LASTS * 1000 async for _, stamp in self._walk(f"{_FOLDER}{name}/")])

    def is_due(self, stamp: Stamp) -> bool:
        """Is a reader of a copy with this stamp, or with this mark, to leave a mark?"""
        return self._age(stamp) >= _UNSAID

    @asynccontextmanager
    async def watch(self, name: BlobHash) -> AsyncGenerator["Watch", None]:
        watch = Watch(self, name)
        try:
            yield watch
        finally:
            await watch.close()

    async def wipe(self, mark: Mark) -> None:
        await self._bucket.delete([mark.path])

    async def sweep(self, older_than: int) -> None:
        """Remove those that are that old, and count no more."""
        lasted = max(older_than, LASTS * 1000)
        await self._bucket.delete([path async for path, stamp in self._walk(_FOLDER) if self._age(stamp) >= lasted])

    async def _walk(self, prefix: str) -> AsyncGenerator[tuple[str, Stamp], None]:
        async for found in self._bucket.list(prefix):
            key = _KEY.fullmatch(found.path)
            stamp = None if key is None else read_stamp(key[1])
            if stamp is not None:
                yield found.path, stamp


class Watch:
    """The mark of one reader, which is there when it is needed."""

    def __init__(self, marks: Marks, name: BlobHash) -> None:
        self._marks = marks
        self._name = name
        self._mark: Mark | None = None

    async def keep(self, read: Stamp) -> bool:
        """Leave a mark, or a fresh one, if it is time; `read` is the stamp of the copy. True if one was left."""
        before = self._mark
        if not self._marks.is_due(read if before is None else before.stamp):
            return False
        self._mark = await self._marks.leave(self._name)
        if before is not None:
            await self._marks.wipe(before)
        return True

    async def close(self) -> None:
        if self._mark is not None:
            # What was read was read: a mark that cannot be wiped away now counts for some hours, and is swept.
            with suppress(StoreError):
                await self._marks.wipe(self._mark)
