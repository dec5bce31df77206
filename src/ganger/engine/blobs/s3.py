"""Large content in a bucket of an S3 service; see `copies.py` for what lies where, and why that is safe.

Who reads keeps content from being collected, in this process and in others: `marks.py` says how.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from ganger.core.clock import Clock, Entropy
from ganger.core.errors import BadBlobRef, BlobCorrupt, BlobMissing, NotFound, PayloadTooLarge
from ganger.engine.blob import BlobHash, BlobRef, Upload, parse_hash
from ganger.engine.blobs.blocks import BLOCK, Digest, clip, recut, touch, trim
from ganger.engine.blobs.bucket import Bucket, BucketPlace
from ganger.engine.blobs.copies import Copies, Copy, Write, compare
from ganger.engine.blobs.marks import LASTS, Watch
from ganger.engine.blobs.seal import Seal
from ganger.engine.blobs.stamp import read_stamp

_SMALL: Final = 8
"""So many blocks are sent in one request, under their final name; what is larger becomes a draft first."""

_LARGEST_COPY: Final = 5 << 30


class S3Blobs:
    """Implements `Blobs` and `Sharing`; the terms are there. It has no connection of its own to be closed."""

    def __init__(self, bucket: Bucket, clock: Clock, entropy: Entropy, largest_copy: int = _LARGEST_COPY) -> None:
        self._bucket = bucket
        self._copies = Copies(bucket, clock, entropy)
        self._largest_copy = largest_copy
        self._readers: Counter[BlobHash] = Counter()

    @classmethod
    async def open(cls, place: BucketPlace, clock: Clock, entropy: Entropy) -> "S3Blobs":
        """Open the bucket. Raises `StoreBroken` if it is not there, `StoreReadOnly` if the key does not allow it."""
        blobs = cls(Bucket(place), clock, entropy)
        await blobs._copies.prepare()
        return blobs

    async def put(self, content: AsyncIterator[bytes] | bytes) -> BlobRef:
        summed = _Summed(recut(content))
        head = [block async for block in summed.take(_SMALL)]
        if len(head) < _SMALL:
            return await self._publish(summed, lambda path: self._bucket.put(path, b"".join(head)))
        draft = self._copies.name_draft()
        await self._bucket.pour(draft, _chain(head, summed))
        try:
            return await self._publish(summed, lambda path: self._move(draft, path, summed.size))
        finally:
            await asyncio.shield(self._bucket.delete([draft]))

    async def _publish(self, summed: "_Summed", write: Write) -> BlobRef:
        ref = BlobRef(summed.hash, summed.size)
        await self._copies.publish(ref, summed.sums, write)
        return ref

    async def _move(self, draft: str, path: str, size: int) -> None:
        if size <= self._largest_copy:
            await self._bucket.copy(draft, path)
        else:
            await self._bucket.pour(path, self._bucket.stream(draft, 0, size))

    async def read(self, ref: BlobRef, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        wanted = clip(ref.size, offset, length)
        number, whole = wanted.start // BLOCK, Digest() if len(wanted) == ref.size else None
        async with self._watched(ref.hash) as watch:
            copy, seal = await self._find(ref, watch)
            async with aclosing(self._stream(copy, seal, wanted)) as blocks:
                async for block in blocks:
                    await watch.keep(copy.stamp)
                    await asyncio.to_thread(_check, seal, number, bytes(block), whole)
                    yield trim(number, bytes(block), wanted)
                    number += 1
            if wanted and number != touch(wanted).stop:
                raise BlobCorrupt(f"blob {ref.hash} is cut short in block {number} of 1 MiB", hash=ref.hash)

    async def _find(self, ref: BlobRef, watch: Watch) -> tuple[Copy, Seal]:
        """The copy that is read, which nobody removes from now on."""
        copy, seal = await self._copies.find(ref.hash)
        if await watch.keep(copy.stamp):
            # It may have gone before the mark was there.
            copy, seal = await self._copies.find(ref.hash)
        compare(ref, seal.ref)
        return copy, seal

    async def _stream(self, copy: Copy, seal: Seal, wanted: range) -> AsyncGenerator[bytes | memoryview, None]:
        """The blocks in which the range lies. A copy that went since it was found is a blob that is missing."""
        if not wanted:
            return
        start = wanted.start - wanted.start % BLOCK
        end = min(touch(wanted).stop * BLOCK, seal.ref.size)
        try:
            async for block in recut(self._bucket.stream(copy.content, start, end - start)):
                yield block
        except FileNotFoundError as error:
            raise BlobMissing(f"blob {copy.name} has lost its content", hash=copy.name) from error

    @asynccontextmanager
    async def _watched(self, name: BlobHash) -> AsyncGenerator[Watch, None]:
        self._readers[name] += 1
        try:
            async with self._copies.marks.watch(name) as watch:
                yield watch
        finally:
            self._readers.subtract([name])
            self._readers = +self._readers

    async def size(self, name: BlobHash) -> int | None:
        try:
            return (await self._copies.find(name))[1].ref.size
        except BlobMissing:
            return None

    async def delete(self, name: BlobHash, older_than: int = 0) -> bool:
        copies = await self._copies.list_of(parse_hash(name))
        ages = [self._copies.age(copy.stamp) for copy in copies]
        if not copies or self._readers[name] or min(ages) < older_than or await self._copies.marks.are_on(name):
            return False
        await self._copies.remove(copies)
        return True

    def list(self, older_than: int = 0) -> AsyncGenerator[BlobHash, None]:
        return self._copies.list_names(older_than)

    async def verify(self, name: BlobHash) -> BlobRef:
        ref = (await self._copies.find(name))[1].ref
        async for _ in self.read(ref):
            pass
        return ref

    async def sweep(self, older_than: int) -> int:
        return await self._copies.sweep(older_than)

    async def share(self, ref: BlobRef) -> str:
        await self._copies.marks.leave(ref.hash)
        copy, seal = await self._copies.find(ref.hash)
        compare(ref, seal.ref)
        return await self._bucket.sign("GET", copy.content, LASTS)

    async def offer(self) -> Upload:
        draft = self._copies.name_draft()
        url = await self._bucket.sign("PUT", draft, LASTS)
        return Upload(draft.rpartition("/")[2], url, LASTS)

    async def adopt(self, upload: str, most: int) -> BlobRef:
        draft = _name_upload(upload)
        try:
            size = await self._bucket.size(draft)
        except FileNotFoundError:
            raise NotFound("nothing was uploaded there: PUT the content to the address first") from None
        if size > most:
            await self._bucket.delete([draft])
            raise PayloadTooLarge(f"the upload has {size} bytes; {most} are the most", limit=most)
        ref = await self._take_over(draft, size)
        await self._bucket.delete([draft])
        return ref

    async def _take_over(self, draft: str, size: int) -> BlobRef:
        """Who uploaded it can still write there: so it gets a name that nobody was told, and is read after that."""
        own = self._copies.name_draft()
        try:
            await self._move(draft, own, size)
            summed = _Summed(recut(self._bucket.stream(own, 0, size)))
            async for _ in summed:
                pass
            return await self._publish(summed, lambda path: self._move(own, path, size))
        finally:
            await asyncio.shield(self._bucket.delete([own]))


class _Summed:
    """Blocks on their way, with the sums and the hash of those that have passed."""

    def __init__(self, blocks: AsyncIterator[bytes | memoryview]) -> None:
        self._blocks = blocks
        self._digest = Digest()
        self._sums = bytearray()

    def __aiter__(self) -> "_Summed":
        return self

    async def __anext__(self) -> bytes | memoryview:
        block = await anext(self._blocks)
        self._sums += await asyncio.to_thread(self._digest.add, block)
        return block

    async def take(self, most: int) -> AsyncGenerator[bytes | memoryview, None]:
        """The next blocks, at most so many."""
        for _ in range(most):
            try:
                yield await anext(self)
            except StopAsyncIteration:
                return

    @property
    def hash(self) -> BlobHash:
        return self._digest.hash

    @property
    def size(self) -> int:
        return self._digest.size

    @property
    def sums(self) -> bytes:
        return bytes(self._sums)


async def _chain(
    head: list[bytes | memoryview], rest: AsyncIterator[bytes | memoryview]
) -> AsyncGenerator[bytes | memoryview, None]:
    for block in head:
        yield block
    async for block in rest:
        yield block


def _check(seal: Seal, number: int, block: bytes, whole: Digest | None) -> None:
    """A block has the sum it was put with; given a digest of all before it, the last one has the hash too."""
    found = hashlib.sha256(block).digest() if whole is None else whole.add(block)
    if found != seal.sum(number):
        raise BlobCorrupt(f"blob {seal.ref.hash} is damaged in block {number} of 1 MiB", hash=seal.ref.hash)
    if whole is not None and whole.size == seal.ref.size and whole.hash != seal.ref.hash:
        raise BlobCorrupt(f"blob {seal.ref.hash} is damaged: it has the hash {whole.hash}", hash=seal.ref.hash)


def _name_upload(upload: str) -> str:
    if read_stamp(upload) is None:
        raise BadBlobRef("this is no upload: send back the name that came with its address", field="upload")
    return f"drafts/{upload}"
