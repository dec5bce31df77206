"""The copies behind `S3Blobs`: what lies where in the bucket, and what is removed from it.

    format                    the version of this layout
    content/<hash>/<stamp>    a copy of the content
    seals/<hash>/<stamp>      its seal: size, sums, birth. Written last: where it is, the copy is whole
    drafts/<stamp>            content on its way, whose hash is not known yet

What can go wrong, and why this is right. A bucket has no locks, and a write to a name replaces what bore it. So no name
is written twice: each put makes a copy of its own, and its stamp says when. A removal names exactly the copies that it
has seen and judged, so it cannot undo a put that it has not seen. A put removes only copies that were whole before it
began its own, so no two puts can remove each other's. The last copy is the one that is read: a put after some damage
heals it. Copies go with the next put when they are six hours old and nobody reads them; see `marks.py` for how a reader
of another process is seen.

What died half-way is a draft, or a copy without a seal. Nobody sees either, and the sweep removes them.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from ganger.core.clock import Clock, Entropy
from ganger.core.errors import BlobCorrupt, BlobMissing, FormatTooNew, StoreBroken
from ganger.engine.blob import Birth, BlobHash, BlobRef, parse_hash
from ganger.engine.blobs.bucket import Bucket
from ganger.engine.blobs.marks import LASTS, Marks
from ganger.engine.blobs.seal import Seal, open_seal, pack_seal
from ganger.engine.blobs.stamp import TOKEN_BYTES, Stamp, read_stamp

FORMAT: Final = 1
_FORMAT_LINE: Final = re.compile(r"ganger blobs (\d{1,9})\n", re.ASCII)
_KEY: Final = re.compile(r"\w+/([0-9a-f]{64})/([0-9a-f]+)", re.ASCII)
_DRAFTS: Final = "drafts/"
_PAGE: Final = 500

Write = Callable[[str], Awaitable[None]]
"""Brings the content to this name."""


class Copy(NamedTuple):
    """One copy of some content."""

    name: BlobHash
    stamp: Stamp

    @property
    def content(self) -> str:
        return f"content/{self.name}/{self.stamp.encode()}"

    @property
    def seal(self) -> str:
        return f"seals/{self.name}/{self.stamp.encode()}"


class Copies:
    def __init__(self, bucket: Bucket, clock: Clock, entropy: Entropy) -> None:
        self._bucket = bucket
        self._clock = clock
        self._entropy = entropy
        self.marks = Marks(bucket, self.make_stamp, self.age)

    async def prepare(self) -> None:
        """Write the version of the layout unless it is there: who cannot write learns it now."""
        try:
            line = _FORMAT_LINE.fullmatch((await self._bucket.read("format")).decode("utf-8", "replace"))
        except FileNotFoundError:
            await self._bucket.put("format", f"ganger blobs {FORMAT}\n".encode())
            return
        if line is None:
            raise StoreBroken("the object `format` in the bucket is none of ours: choose another prefix")
        if int(line[1]) > FORMAT:
            raise FormatTooNew(
                f"the bucket has format {line[1]} and this version knows {FORMAT}: upgrade before opening it",
                found=int(line[1]),
                known=FORMAT,
            )

    def make_stamp(self) -> Stamp:
        return Stamp(Birth.read(self._clock), self._entropy.token(TOKEN_BYTES))

    def name_draft(self) -> str:
        return f"{_DRAFTS}{self.make_stamp().encode()}"

    def age(self, stamp: Stamp) -> int:
        return stamp.birth.age(self._clock)

    async def list_of(self, name: BlobHash) -> list[Copy]:
        """The copies of this content, the oldest first."""
        return [copy async for copy, _ in self._walk(f"seals/{parse_hash(name)}/")]

    async def find(self, name: BlobHash) -> tuple[Copy, Seal]:
        """The copy that is read, and its seal; BlobMissing if there is none."""
        for copy in reversed(await self.list_of(name)):
            try:
                return copy, open_seal(name, await self._bucket.read(copy.seal))
            except FileNotFoundError:
                # Removed since they were listed; one that is older may be there still.
                continue
        raise BlobMissing(f"blob {name} is not here: it was never put, or collected when no row named it", hash=name)

    async def publish(self, ref: BlobRef, sums: bytes, write: Write) -> None:
        """Make a copy that can be seen, and remove those that it supersedes."""
        before = await self.list_of(ref.hash)
        stamp = self.make_stamp().behind([copy.stamp for copy in before])
        new = Copy(ref.hash, stamp)
        await write(new.content)
        await self._bucket.put(new.seal, pack_seal(Seal(ref, stamp.birth, sums)))
        superseded = [copy for copy in before if self.age(copy.stamp) >= LASTS * 1000]
        if superseded and not await self.marks.are_on(ref.hash):
            await self.remove(superseded)

    async def remove(self, copies: Sequence[Copy]) -> None:
        """The seals first: what has none is seen by nobody, and swept if the rest of this is never done.

        So it is too if somebody marked it before that: he found the seal, and reads on.
        """
        for start in range(0, len(copies), _PAGE):
            page = copies[start : start + _PAGE]
            await self._bucket.delete([copy.seal for copy in page])
            read = {name: await self.marks.are_on(name) for name in {copy.name for copy in page}}
            await self._bucket.delete([copy.content for copy in page if not read[copy.name]])

    async def list_names(self, older_than: int) -> AsyncGenerator[BlobHash, None]:
        """Every content of which all copies are that old."""
        name, is_old = None, True
        async for copy, _ in self._walk("seals/"):
            if copy.name != name:
                if name is not None and is_old:
                    yield name
                name, is_old = copy.name, True
            is_old = is_old and self.age(copy.stamp) >= older_than
        if name is not None and is_old:
            yield name

    async def _walk(self, prefix: str) -> AsyncGenerator[tuple[Copy, str], None]:
        """The copies whose names begin so, each with what is the same in the names of its content and its seal."""
        async for found in self._bucket.list(prefix):
            key = _KEY.fullmatch(found.path)
            stamp = None if key is None else read_stamp(key[2])
            if key is not None and stamp is not None:
                yield Copy(BlobHash(key[1]), stamp), f"{key[1]}/{key[2]}"

    async def sweep(self, older_than: int) -> int:
        """Remove drafts and copies without a seal that are that old, and which nobody reads; how many."""
        await self.marks.sweep(older_than)
        return await self._sweep_drafts(older_than) + await self._sweep_unsealed(older_than)

    async def _sweep_drafts(self, older_than: int) -> int:
        left = []
        async for found in self._bucket.list(_DRAFTS):
            stamp = read_stamp(found.path.removeprefix(_DRAFTS))
            if stamp is not None and self.age(stamp) >= older_than:
                left.append(found.path)
        await self._bucket.delete(left)
        return len(left)

    async def _sweep_unsealed(self, older_than: int) -> int:
        """Both lists are in the order of the alphabet, so one pass over each finds what only the first has."""
        swept, seals = 0, self._walk("seals/")
        sealed = await _next_key(seals)
        async for copy, key in self._walk("content/"):
            while sealed is not None and sealed < key:
                sealed = await _next_key(seals)
            if sealed != key and self.age(copy.stamp) >= older_than and not await self._is_wanted(copy):
                await self._bucket.delete([copy.content])
                swept += 1
        return swept

    async def _is_wanted(self, copy: Copy) -> bool:
        """It may have been sealed since the lists were begun, and one who found it before its seal went may read it."""
        try:
            await self._bucket.size(copy.seal)
        except FileNotFoundError:
            return await self.marks.are_on(copy.name)
        return True


async def _next_key(copies: AsyncIterator[tuple[Copy, str]]) -> str | None:
    found = await anext(copies, None)
    return None if found is None else found[1]


def compare(wanted: BlobRef, found: BlobRef) -> None:
    if wanted.size != found.size:
        raise BlobCorrupt(
            f"blob {wanted.hash} has {found.size} bytes where its row says {wanted.size}",
            hash=wanted.hash,
            size=found.size,
        )
