"""The conformance suite of `ganger.engine.blob`: every check takes a fresh stand, and all of `CHECKS` must pass."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass

from ganger.core.errors import BadBlobRef, BadNumber, BlobCorrupt, BlobMissing, GangerError
from ganger.engine.blob import GRACE, BlobHash, BlobRef, Blobs, Collected, collect
from ganger.testing.clock import FakeClock

MIB = 1 << 20
YEAR = 365 * 24 * 60 * 60 * 1000
SIZES = (0, 1, 1000, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 7)
NOT_HASHES = ("", "a", "a" * 63, "a" * 65, "A" * 64, "g" * 64, "../" * 21 + "a", "/" * 64, "a" * 63 + "\n", "٣" * 64)


@dataclass(frozen=True, slots=True)
class BlobStand:
    """What the checks are given: how to open the place again and again, and its clock.

    `durable`: what was put is there for who opens it anew. `damage` changes one byte of stored content at an offset;
    None where that cannot happen.
    """

    open: Callable[[], Awaitable[Blobs]]
    clock: FakeClock
    durable: bool = True
    damage: Callable[[BlobHash, int], None] | None = None


Check = Callable[[BlobStand], Awaitable[None]]


def make_content(size: int) -> bytes:
    """Bytes of that size in which no two blocks are alike."""
    return hashlib.shake_128(b"content").digest(size)


async def pour(content: bytes, size: int) -> AsyncIterator[bytes]:
    """The content in pieces of that size."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


async def drink(blobs: Blobs, ref: BlobRef, offset: int = 0, length: int | None = None) -> bytes:
    return b"".join([piece async for piece in blobs.read(ref, offset, length)])


async def list_names(blobs: Blobs, older_than: int = 0) -> list[BlobHash]:
    return sorted([name async for name in blobs.list(older_than)])


@contextmanager
def expect(kind: type[GangerError]) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")


async def content_comes_back_as_it_was_put(stand: BlobStand) -> None:
    blobs = await stand.open()
    for size in SIZES:
        content = make_content(size)
        ref = await blobs.put(content)
        assert ref == BlobRef(BlobHash(hashlib.sha256(content).hexdigest()), size)
        assert await drink(blobs, ref) == content
        assert await blobs.size(ref.hash) == size
        assert await blobs.verify(ref.hash) == ref


async def how_content_is_cut_does_not_matter(stand: BlobStand) -> None:
    blobs, content = await stand.open(), make_content(2 * MIB + 5)
    refs = {await blobs.put(pour(content, size)) for size in (999, 65_536, MIB, MIB + 1, 3 * MIB)}
    assert refs == {await blobs.put(content)}


async def pieces_are_never_larger_than_a_block(stand: BlobStand) -> None:
    blobs = await stand.open()
    ref = await blobs.put(make_content(3 * MIB + 7))
    assert max([len(piece) async for piece in blobs.read(ref)]) <= MIB


async def the_same_content_is_one_object(stand: BlobStand) -> None:
    blobs = await stand.open()
    refs = await asyncio.gather(*(blobs.put(pour(make_content(MIB + 1), 50_000)) for _ in range(8)))
    assert await list_names(blobs) == [refs[0].hash]
    assert len(set(refs)) == 1


async def a_range_is_that_slice_of_the_content(stand: BlobStand) -> None:
    blobs, content = await stand.open(), make_content(3 * MIB + 7)
    ref = await blobs.put(content)
    for offset in (0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB, 3 * MIB + 6, 3 * MIB + 7, 9 * MIB):
        for length in (0, 1, 2, MIB, MIB + 2, 9 * MIB, None):
            end = None if length is None else offset + length
            assert await drink(blobs, ref, offset, length) == content[offset:end], (offset, length)


async def a_range_below_zero_is_refused(stand: BlobStand) -> None:
    blobs = await stand.open()
    ref = await blobs.put(b"content")
    with expect(BadNumber):
        await drink(blobs, ref, -1)
    with expect(BadNumber):
        await drink(blobs, ref, 0, -1)


async def what_is_not_here_is_missing(stand: BlobStand) -> None:
    blobs, name = await stand.open(), BlobHash("ab" * 32)
    with expect(BlobMissing):
        await drink(blobs, BlobRef(name, 3))
    with expect(BlobMissing):
        await blobs.verify(name)
    assert await blobs.size(name) is None
    assert await blobs.delete(name) is False


async def what_is_not_a_hash_is_refused(stand: BlobStand) -> None:
    blobs = await stand.open()
    calls: Sequence[Callable[[BlobHash], Awaitable[object]]] = (blobs.size, blobs.delete, blobs.verify)
    for text in NOT_HASHES:
        with expect(BadBlobRef):
            BlobRef(BlobHash(text), 3)
        for call in calls:
            with expect(BadBlobRef):
                await call(BlobHash(text))


async def a_ref_of_another_size_is_noticed(stand: BlobStand) -> None:
    blobs = await stand.open()
    ref = await blobs.put(b"content")
    for size in (0, 6, 8, 2 * MIB):
        with expect(BlobCorrupt):
            await drink(blobs, BlobRef(ref.hash, size))


async def what_is_deleted_is_gone_and_may_come_back(stand: BlobStand) -> None:
    blobs = await stand.open()
    ref = await blobs.put(b"content")
    assert await blobs.delete(ref.hash) is True
    assert await blobs.delete(ref.hash) is False
    assert await list_names(blobs) == []
    with expect(BlobMissing):
        await drink(blobs, ref)
    assert await drink(blobs, await blobs.put(b"content")) == b"content"


async def what_is_young_is_spared(stand: BlobStand) -> None:
    blobs = await stand.open()
    ref = await blobs.put(b"content")
    stand.clock.advance(GRACE - 1)
    assert await list_names(blobs, GRACE) == []
    assert await blobs.delete(ref.hash, GRACE) is False
    stand.clock.advance(1)
    assert await list_names(blobs, GRACE) == [ref.hash]
    assert await blobs.delete(ref.hash, GRACE) is True


async def putting_again_makes_it_young(stand: BlobStand) -> None:
    blobs = await stand.open()
    await blobs.put(b"content")
    stand.clock.advance(GRACE)
    ref = await blobs.put(b"content")
    assert await list_names(blobs, GRACE) == []
    assert await blobs.delete(ref.hash, GRACE) is False


async def a_jump_of_the_wall_clock_ages_nothing(stand: BlobStand) -> None:
    blobs = await stand.open()
    ref = await blobs.put(b"content")
    stand.clock.jump_wall(YEAR)
    assert await blobs.delete(ref.hash, GRACE) is False
    stand.clock.jump_wall(-2 * YEAR)
    stand.clock.advance(GRACE)
    assert await blobs.delete(ref.hash, GRACE) is True


async def age_goes_on_over_a_reboot(stand: BlobStand) -> None:
    blobs = await stand.open()
    ref = await blobs.put(b"content")
    stand.clock.reboot(down=GRACE - 1)
    assert await blobs.delete(ref.hash, GRACE) is False
    stand.clock.advance(1)
    assert await blobs.delete(ref.hash, GRACE) is True


async def what_is_being_read_is_spared(stand: BlobStand) -> None:
    blobs, content = await stand.open(), make_content(2 * MIB)
    ref = await blobs.put(content)
    async with aclosing(blobs.read(ref)) as pieces:
        first = await anext(pieces)
        assert await blobs.delete(ref.hash) is False
        assert first + b"".join([piece async for piece in pieces]) == content
    assert await blobs.delete(ref.hash) is True


async def a_reader_that_leaves_early_lets_go(stand: BlobStand) -> None:
    blobs = await stand.open()
    ref = await blobs.put(make_content(2 * MIB))
    async with aclosing(blobs.read(ref)) as pieces:
        await anext(pieces)
    assert await blobs.delete(ref.hash) is True


async def a_put_that_fails_leaves_nothing(stand: BlobStand) -> None:
    async def break_off() -> AsyncIterator[bytes]:
        yield make_content(2 * MIB)
        raise BadNumber("the source broke off")

    blobs = await stand.open()
    with expect(BadNumber):
        await blobs.put(break_off())
    assert await list_names(blobs) == []
    assert await blobs.sweep(0) == 0


async def a_put_that_is_cancelled_leaves_nothing(stand: BlobStand) -> None:
    reached = asyncio.Event()

    async def stall() -> AsyncIterator[bytes]:
        yield make_content(2 * MIB)
        reached.set()
        await asyncio.Event().wait()

    blobs = await stand.open()
    putting = asyncio.ensure_future(blobs.put(stall()))
    await reached.wait()
    putting.cancel()
    await asyncio.wait([putting])
    assert putting.cancelled()
    assert await list_names(blobs) == []
    assert await blobs.sweep(0) == 0


async def only_what_no_row_names_is_collected(stand: BlobStand) -> None:
    blobs = await stand.open()
    refs = [await blobs.put(f"content {number}".encode()) for number in range(20)]
    named = {ref.hash for ref in refs[::3]}
    stand.clock.advance(GRACE)
    young = await blobs.put(b"young")

    async def find_named(names: Sequence[BlobHash]) -> set[BlobHash]:
        return named.intersection(names)

    assert await collect(blobs, find_named) == Collected(removed=13, swept=0)
    assert await list_names(blobs) == sorted({*named, young.hash})
    assert await collect(blobs, find_named) == Collected(removed=0, swept=0)


async def what_is_put_during_a_collection_is_spared(stand: BlobStand) -> None:
    blobs = await stand.open()
    ref = await blobs.put(b"content")
    stand.clock.advance(GRACE)

    async def put_meanwhile(names: Sequence[BlobHash]) -> set[BlobHash]:
        await blobs.put(b"content")
        return set()

    assert await collect(blobs, put_meanwhile) == Collected(removed=0, swept=0)
    assert await drink(blobs, ref) == b"content"


async def what_was_put_is_there_after_opening_anew(stand: BlobStand) -> None:
    if not stand.durable:
        return
    ref = await (await stand.open()).put(make_content(MIB + 1))
    assert await drink(await stand.open(), ref) == make_content(MIB + 1)


async def a_changed_byte_is_noticed_and_never_served(stand: BlobStand) -> None:
    if stand.damage is None:
        return
    blobs, content = await stand.open(), make_content(3 * MIB + 7)
    for position in (0, MIB - 1, MIB, 2 * MIB + 1000, 3 * MIB + 6):
        ref = await blobs.put(content)
        stand.damage(ref.hash, position)
        await _check_damage(blobs, ref, content, position)


async def _check_damage(blobs: Blobs, ref: BlobRef, content: bytes, position: int) -> None:
    served = b""
    with expect(BlobCorrupt):
        async for piece in blobs.read(ref):
            served += piece
    assert content.startswith(served)
    assert len(served) <= position
    with expect(BlobCorrupt):
        await drink(blobs, ref, position, 1)
    with expect(BlobCorrupt):
        await blobs.verify(ref.hash)


async def putting_again_heals_damage(stand: BlobStand) -> None:
    if stand.damage is None:
        return
    blobs = await stand.open()
    ref = await blobs.put(b"content")
    stand.damage(ref.hash, 3)
    assert await blobs.put(b"content") == ref
    assert await drink(blobs, ref) == b"content"


CHECKS: tuple[Check, ...] = (
    content_comes_back_as_it_was_put,
    how_content_is_cut_does_not_matter,
    pieces_are_never_larger_than_a_block,
    the_same_content_is_one_object,
    a_range_is_that_slice_of_the_content,
    a_range_below_zero_is_refused,
    what_is_not_here_is_missing,
    what_is_not_a_hash_is_refused,
    a_ref_of_another_size_is_noticed,
    what_is_deleted_is_gone_and_may_come_back,
    what_is_young_is_spared,
    putting_again_makes_it_young,
    a_jump_of_the_wall_clock_ages_nothing,
    age_goes_on_over_a_reboot,
    what_is_being_read_is_spared,
    a_reader_that_leaves_early_lets_go,
    a_put_that_fails_leaves_nothing,
    a_put_that_is_cancelled_leaves_nothing,
    only_what_no_row_names_is_collected,
    what_is_put_during_a_collection_is_spared,
    what_was_put_is_there_after_opening_anew,
    a_changed_byte_is_noticed_and_never_served,
    putting_again_heals_damage,
)
