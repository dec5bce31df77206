"""Content is cut into blocks and sealed so that any range of it can be verified."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.core.clock import Moment, Wall
from ganger.core.errors import BlobCorrupt
from ganger.engine.blob import Birth, BlobHash, BlobRef
from ganger.engine.blobs.blocks import BLOCK, Digest, clip, count_blocks, recut, touch, trim
from ganger.engine.blobs.seal import Seal, pack_seal, read_seal

pytestmark = pytest.mark.slow

CONTENT = hashlib.shake_128(b"blocks").digest(4 * BLOCK)
NEAR_BLOCKS = st.one_of(
    st.integers(0, 3 * BLOCK), st.builds(lambda n, d: max(0, n * BLOCK + d), st.integers(0, 3), st.integers(-2, 2))
)


async def pour(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def cut(pieces: list[bytes]) -> list[bytes]:
    return [bytes(block) async for block in recut(pour(pieces))]


def make_seal(content: bytes) -> Seal:
    digest = Digest()
    sums = b"".join(digest.add(content[start : start + BLOCK]) for start in range(0, len(content), BLOCK))
    return Seal(BlobRef(digest.hash, digest.size), Birth(Wall(5), Moment(7), b"b" * 32), sums)


def read_from(file: bytes, name: BlobHash) -> Seal:
    return read_seal(name, len(file), lambda size, offset: file[offset : offset + size])


@settings(max_examples=40, deadline=None)
@given(st.lists(NEAR_BLOCKS, max_size=4))
def test_every_block_but_the_last_is_full_and_no_byte_is_lost(sizes: list[int]) -> None:
    pieces = [CONTENT[:size] for size in sizes]
    blocks = asyncio.run(cut(pieces))
    assert b"".join(blocks) == b"".join(pieces)
    assert all(len(block) == BLOCK for block in blocks[:-1])
    assert all(0 < len(block) <= BLOCK for block in blocks[-1:])


@settings(max_examples=40, deadline=None)
@given(size=NEAR_BLOCKS, offset=NEAR_BLOCKS, length=st.none() | NEAR_BLOCKS)
def test_the_trimmed_blocks_of_a_range_are_that_slice(size: int, offset: int, length: int | None) -> None:
    content = CONTENT[:size]
    wanted = clip(size, offset, length)
    taken = b"".join(trim(n, content[n * BLOCK : (n + 1) * BLOCK], wanted) for n in touch(wanted))
    assert taken == content[offset : None if length is None else offset + length]


@settings(max_examples=40, deadline=None)
@given(size=NEAR_BLOCKS, offset=NEAR_BLOCKS, length=st.none() | NEAR_BLOCKS)
def test_a_range_touches_no_block_that_it_does_not_need(size: int, offset: int, length: int | None) -> None:
    wanted = clip(size, offset, length)
    content = CONTENT[:size]
    assert all(trim(n, content[n * BLOCK : (n + 1) * BLOCK], wanted) for n in touch(wanted))


@settings(max_examples=40, deadline=None)
@given(NEAR_BLOCKS)
def test_a_seal_reads_back_as_it_was_packed(size: int) -> None:
    seal = make_seal(CONTENT[:size])
    assert read_from(CONTENT[:size] + pack_seal(seal), seal.ref.hash) == seal
    assert len(seal.sums) == 32 * count_blocks(size)


@pytest.mark.parametrize("size", [0, 3, 2 * BLOCK + 1])
def test_any_changed_byte_of_a_seal_is_noticed(size: int) -> None:
    seal = make_seal(CONTENT[:size])
    packed = pack_seal(seal)
    for position in range(len(packed)):
        changed = packed[:position] + bytes([packed[position] ^ 0x10]) + packed[position + 1 :]
        with pytest.raises(BlobCorrupt):
            read_from(CONTENT[:size] + changed, seal.ref.hash)


@pytest.mark.parametrize("kept", [0, 1, 100, 151, 152, 153, 160])
def test_a_file_that_was_cut_short_is_noticed(kept: int) -> None:
    seal = make_seal(b"content")
    with pytest.raises(BlobCorrupt):
        read_from((b"content" + pack_seal(seal))[:kept], seal.ref.hash)


@pytest.mark.parametrize("grown", [b"\0" + b"content", b"content" + b"\0"])
def test_a_file_that_has_grown_is_noticed(grown: bytes) -> None:
    seal = make_seal(b"content")
    with pytest.raises(BlobCorrupt):
        read_from(grown + pack_seal(seal), seal.ref.hash)


def test_a_file_under_the_name_of_another_is_noticed() -> None:
    seal = make_seal(b"content")
    with pytest.raises(BlobCorrupt, match="holds"):
        read_from(b"content" + pack_seal(seal), make_seal(b"another").ref.hash)


def test_a_seal_that_lies_about_its_only_block_is_noticed() -> None:
    true = make_seal(b"content")
    forged = Seal(true.ref, true.birth, hashlib.sha256(b"contend").digest())
    with pytest.raises(BlobCorrupt, match="only sum"):
        read_from(b"contend" + pack_seal(forged), true.ref.hash)
