"""Large content in memory: the model of the contract, and enough for tests and for a store that forgets."""

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from ganger.core.clock import Clock
from ganger.core.errors import BlobCorrupt, BlobMissing
from ganger.engine.blob import Birth, BlobHash, BlobRef, parse_hash
from ganger.engine.blobs.blocks import BLOCK, Digest, clip, recut, touch, trim


@dataclass(frozen=True, slots=True)
class _Kept:
    content: bytes
    birth: Birth


class MemoryBlobs:
    """Implements `Blobs` but for durability: it lives as long as its process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[BlobHash, _Kept] = {}
        self._readers: Counter[BlobHash] = Counter()

    async def put(self, content: AsyncIterator[bytes] | bytes) -> BlobRef:
        digest, held = Digest(), bytearray()
        async for block in recut(content):
            digest.add(block)
            held += block
        self._kept[digest.hash] = _Kept(bytes(held), Birth.read(self._clock))
        return BlobRef(digest.hash, digest.size)

    async def read(self, ref: BlobRef, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        wanted = clip(ref.size, offset, length)
        content = self._find(ref.hash).content
        if len(content) != ref.size:
            raise BlobCorrupt(f"blob {ref.hash} has {len(content)} bytes where its row says {ref.size}", hash=ref.hash)
        self._readers[ref.hash] += 1
        try:
            for number in touch(wanted):
                yield trim(number, content[number * BLOCK : (number + 1) * BLOCK], wanted)
        finally:
            self._readers.subtract([ref.hash])
            self._readers = +self._readers

    async def size(self, name: BlobHash) -> int | None:
        kept = self._kept.get(parse_hash(name))
        return None if kept is None else len(kept.content)

    async def delete(self, name: BlobHash, older_than: int = 0) -> bool:
        kept = self._kept.get(parse_hash(name))
        if kept is None or self._readers[name] or kept.birth.age(self._clock) < older_than:
            return False
        del self._kept[name]
        return True

    async def list(self, older_than: int = 0) -> AsyncGenerator[BlobHash, None]:
        for name in [name for name, kept in self._kept.items() if kept.birth.age(self._clock) >= older_than]:
            yield name

    async def verify(self, name: BlobHash) -> BlobRef:
        return BlobRef(name, len(self._find(name).content))

    async def sweep(self, older_than: int) -> int:
        return 0

    def _find(self, name: BlobHash) -> _Kept:
        kept = self._kept.get(parse_hash(name))
        if kept is None:
            raise BlobMissing(
                f"blob {name} is not here: it was never put, or collected when no row named it", hash=name
            )
        return kept
