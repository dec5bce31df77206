"""Large content in a folder beside the database: one file per object, written and synced before a row names it."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path

from ganger.core.clock import Clock, Entropy
from ganger.core.errors import BlobCorrupt, BlobMissing
from ganger.engine.blob import Birth, BlobHash, BlobRef
from ganger.engine.blobs.blocks import Digest, clip, recut, touch, trim
from ganger.engine.blobs.draft import Draft
from ganger.engine.blobs.folder import Folder, prepare
from ganger.engine.blobs.reading import Reading
from ganger.engine.blobs.works import Works
from ganger.runtime.disk import Probe, pass_by
from ganger.runtime.threads import run_whole


class FileBlobs:
    """Implements `Blobs`; the terms are there. It keeps no file open between calls, so it needs no closing."""

    def __init__(self, root: Path, clock: Clock, entropy: Entropy, probe: Probe = pass_by) -> None:
        self._folder = Folder(root, clock, probe)
        self._clock = clock
        self._entropy = entropy
        self._probe = probe

    @classmethod
    async def open(cls, root: Path, clock: Clock, entropy: Entropy, probe: Probe = pass_by) -> "FileBlobs":
        """Open the folder, or make it. Several processes may do so at once.

        Raises `FormatTooNew` for a folder of a later version, `StoreMissingFolder` where there is none to make it in.
        """
        await run_whole(prepare, root, entropy.token(16).hex())
        return cls(root, clock, entropy, probe)

    async def put(self, content: AsyncIterator[bytes] | bytes) -> BlobRef:
        draft = Draft(self._folder.drafts / self._entropy.token(16).hex(), self._probe)
        works, syncs, is_first = Works(), Works(), True
        try:
            async for block in recut(content):
                # While one block is hashed and written the next one comes.
                await works.finish()
                if draft.is_ahead():
                    # So does the disk write while more comes; if that is quicker, it waits for the disk.
                    await syncs.finish()
                    _ = syncs.begin(Draft.write_out, draft)
                _ = works.begin(draft.add_first if is_first else draft.add, block)
                if not is_first:
                    _ = works.begin(draft.follow, block)
                is_first = False
            await works.finish()
            await syncs.finish()
            return await run_whole(draft.publish, self._folder.objects, Birth.read(self._clock))
        finally:
            await works.abandon()
            await syncs.abandon()
            await run_whole(draft.close)

    async def read(self, ref: BlobRef, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        wanted = clip(ref.size, offset, length)
        with closing(Reading(self._folder.path(ref.hash), ref.hash)) as reading:
            _compare(ref, await run_whole(reading.open))
            # Content of one block has one sum, which was compared with the hash when it was opened.
            whole = Digest() if len(wanted) == ref.size and len(touch(wanted)) > 1 else None
            async with aclosing(_read_ahead(reading, touch(wanted), whole)) as blocks:
                async for number, block in blocks:
                    yield trim(number, block, wanted)

    async def size(self, name: BlobHash) -> int | None:
        try:
            return (await run_whole(self._folder.measure, name)).size
        except BlobMissing:
            return None

    async def delete(self, name: BlobHash, older_than: int = 0) -> bool:
        return await run_whole(self._folder.delete, name, older_than)

    async def list(self, older_than: int = 0) -> AsyncGenerator[BlobHash, None]:
        for shelf in self._folder.shelves:
            for name in await run_whole(self._folder.list, shelf, older_than):
                yield name

    async def verify(self, name: BlobHash) -> BlobRef:
        ref = await run_whole(self._folder.measure, name)
        async for _ in self.read(ref):
            pass
        return ref

    async def sweep(self, older_than: int) -> int:
        return await run_whole(self._folder.sweep, older_than)


async def _read_ahead(
    reading: Reading, numbers: range, whole: Digest | None
) -> AsyncGenerator[tuple[int, bytes], None]:
    """The blocks of these numbers. While one is on its way, the next one is read and the whole is hashed."""
    works = Works()
    try:
        taking = works.begin(reading.take, numbers.start) if numbers else None
        for number in numbers:
            await works.finish()
            block = taking.result() if taking is not None else b""
            is_last = number + 1 not in numbers
            taking = None if is_last else works.begin(reading.take, number + 1)
            if whole is not None:
                _ = works.begin(whole.follow, block)
            if is_last and whole is not None:
                await works.finish()
                reading.compare(whole)
            yield number, block
    finally:
        await works.abandon()


def _compare(wanted: BlobRef, found: BlobRef) -> None:
    if wanted.size != found.size:
        raise BlobCorrupt(
            f"blob {wanted.hash} has {found.size} bytes where its row says {wanted.size}",
            hash=wanted.hash,
            size=found.size,
        )
