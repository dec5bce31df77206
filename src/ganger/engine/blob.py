"""THE CONTRACT for large data: content that is named by its own hash and is safe before a row names it.

What can go wrong, and why this is right:

- *A row names content that is not there.* Content is durable when `put` returns, and the row is written after that. A
  crash in between leaves content without a row, which costs space until the collector comes, and nothing else.
- *The collector removes what a row is about to name.* Between the end of a `put` and the commit of its row nobody
  names the content. So only what is older than a grace of 24 hours is collected, a second `put` of the same content
  makes it young again, and `delete` looks at the age once more under the lock that excludes a `put`. Who writes a row
  that names a blob must have put it within the grace, or do it in a transaction in which another row still names it.
- *The wall clock jumps.* Age is counted on the boot clock as long as the boot lasts that saw the content arrive, so a
  clock that is set from 1970 to today ages nothing. Only over a reboot the wall clock has to serve.
- *A disk changes a byte.* Every byte is verified before it is handed over, in ranges as well. What is damaged is
  `BlobCorrupt`, never served; putting the content again heals it.

References are counted in the store, in the transaction that writes the row, because only there can a count be right.
"""

import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence, Set
from dataclasses import dataclass
from typing import Final, NamedTuple, NewType, Protocol, runtime_checkable

from ganger.core.clock import Clock, Moment, Wall
from ganger.core.errors import BadBlobRef

BlobHash = NewType("BlobHash", str)
"""The SHA-256 of the content as 64 lowercase hexadecimal digits: one content has one name."""

Referenced = Callable[[Sequence[BlobHash]], Awaitable[Set[str]]]
"""Which of these hashes a row names, in a snapshot taken after the call began."""

GRACE: Final = 24 * 60 * 60 * 1000
"""Milliseconds in which unnamed content is left alone."""

_PAGE: Final = 500
_NAME: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def parse_hash(text: str) -> BlobHash:
    """The text as a hash, or BadBlobRef: nothing that is not a hash ever gets near a path."""
    if not _NAME.fullmatch(text):
        raise BadBlobRef(f"{text[:80]!r} is not a blob's hash: give 64 lowercase hexadecimal digits", hash=text[:80])
    return BlobHash(text)


@dataclass(frozen=True, slots=True)
class BlobRef:
    """What a row keeps of a blob: enough to find the content and to notice that it is another."""

    hash: BlobHash
    size: int

    def __post_init__(self) -> None:
        parse_hash(self.hash)
        if self.size < 0:
            raise BadBlobRef(f"a blob cannot have {self.size} bytes", hash=self.hash, size=self.size)


@dataclass(frozen=True, slots=True)
class Birth:
    """When content arrived, on both clocks, and in which boot the first of them counts."""

    wall: Wall
    now: Moment
    boot: bytes

    @classmethod
    def read(cls, clock: Clock) -> "Birth":
        return cls(clock.wall(), clock.now(), hashlib.sha256(clock.boot_id().encode()).digest())

    def age(self, clock: Clock) -> int:
        """Milliseconds since, which no jump of the wall clock changes within one boot."""
        today = Birth.read(clock)
        return today.now - self.now if today.boot == self.boot else today.wall - self.wall


class Blobs(Protocol):
    """A place for large content. Safe for any number of tasks and processes at once.

    Errors of any operation besides those it names: `BadBlobRef` for a name that is not a hash, `StoreReadOnly`,
    `StoreUnavailable` (out of descriptors; try again) and `StoreBroken` (the disk failed). Damage is `BlobCorrupt`.
    """

    async def put(self, content: AsyncIterator[bytes] | bytes) -> BlobRef:
        """Keep the content and return its name. Durable when it returns, invisible until it is whole.

        The content is never whole in memory. The same content is one object, however often and by however many it is
        put; each put makes it young again and replaces a damaged copy. Nothing else ever changes under a name.
        An error, also one of the iterator, or a cancellation leaves nothing that can be seen; sending it again is safe.
        Raises `StoreFull` when there is no room.
        """
        ...

    def read(self, ref: BlobRef, offset: int = 0, length: int | None = None) -> AsyncGenerator[bytes, None]:
        """The bytes from `offset`, `length` of them or all, in order, in pieces of at most 1 MiB.

        Each piece is verified before it is handed over, and a read of the whole content verifies the hash of the whole
        before its last piece. A range is verified against the sums of the blocks it touches, which were kept at `put`:
        that notices any accident, and only a whole read also notices someone who forges the sums.
        Nothing past the end: a range that begins there is empty. While it is open the content is not collected; close
        the generator (`contextlib.aclosing`) when leaving early. Errors come with the first piece that is asked for.
        Raises `BlobMissing`, `BlobCorrupt` (damaged, or not of the size that the ref says), `BadNumber` (below zero).
        """
        ...

    async def size(self, name: BlobHash) -> int | None:
        """How many bytes the content has; None if it is not here. Raises `BlobCorrupt` if that cannot be told."""
        ...

    async def delete(self, name: BlobHash, older_than: int = 0) -> bool:
        """Remove the content if it is at least `older_than` milliseconds old and nobody reads it.

        The test and the removal are one step: a `put` that is acknowledged is never undone by it. False if it stays,
        or was not here. Durable when it returns. Idempotent. It does not ask whether a row names it: `collect` does.
        """
        ...

    def list(self, older_than: int = 0) -> AsyncGenerator[BlobHash, None]:
        """Every name whose content is at least `older_than` milliseconds old, damaged ones included, in any order.

        Not a snapshot: what is put or removed meanwhile may be seen or not; all else is seen exactly once.
        """
        ...

    async def verify(self, name: BlobHash) -> BlobRef:
        """Read all of it and compare: the ref if every byte is as it was put. Raises `BlobMissing`, `BlobCorrupt`."""
        ...

    async def sweep(self, older_than: int) -> int:
        """Remove what writers that died left behind at least `older_than` milliseconds ago; how many. Idempotent."""
        ...


class Upload(NamedTuple):
    """Where somebody may send content past us: the name under which it is taken in, the address, and for how long."""

    name: str
    url: str
    seconds: float


@runtime_checkable
class Sharing(Protocol):
    """What a place can do besides, if others can reach it: its content need not pass through this process.

    Errors are those of `Blobs`.
    """

    async def share(self, ref: BlobRef) -> str:
        """An address from which anybody can GET the content for some hours, without a token.

        What is read there is not verified by us: tell the reader its hash. Raises `BlobMissing`, `BlobCorrupt`.
        """
        ...

    async def offer(self) -> Upload:
        """An address to which anybody can PUT content for some hours. What nobody takes in is swept."""
        ...

    async def adopt(self, upload: str, most: int) -> BlobRef:
        """Take in what was uploaded, as `put` would: it is read here, once, because nothing is believed of it.

        Durable when it returns. It can be taken in once: `NotFound` for what is not there, or not any more. Raises
        `BadBlobRef` for a name that is none, `PayloadTooLarge` if it has more than `most` bytes; then it is removed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Collected:
    """What one collection did: contents that no row named, and leftovers of writers that died."""

    removed: int
    swept: int


async def collect(blobs: Blobs, referenced: Referenced, grace: int = GRACE) -> Collected:
    """Remove what no row names, sparing what is younger than the grace or open. Idempotent; may be stopped anywhere."""
    removed = 0
    page: list[BlobHash] = []
    async for name in blobs.list(grace):
        page.append(name)
        if len(page) == _PAGE:
            removed += await _remove_unnamed(blobs, referenced, page, grace)
            page = []
    removed += await _remove_unnamed(blobs, referenced, page, grace)
    return Collected(removed, await blobs.sweep(grace))


async def _remove_unnamed(blobs: Blobs, referenced: Referenced, page: Sequence[BlobHash], grace: int) -> int:
    if not page:
        return 0
    named = await referenced(page)
    removed = 0
    for name in page:
        removed += name not in named and await blobs.delete(name, grace)
    return removed
