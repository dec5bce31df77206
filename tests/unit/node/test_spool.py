"""Output is kept as it comes, capped, and can be followed from any offset without holding the writer up."""

import asyncio
import os
import resource
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.core.errors import BadName, BadNumber, StoreBroken, StoreFull, StoreReadOnly
from ganger.core.ids import Fence, TaskId
from ganger.engine.blobs.memory import MemoryBlobs
from ganger.node.spool import Bell, Extent, Piece, Spool, SpoolKey, SpoolReader
from ganger.testing.clock import FakeClock

KEY = SpoolKey(TaskId(22), Fence(3), "stdout")


def make_spool(folder: Path, cap: int = 1 << 30) -> Spool:
    return Spool(folder, cap)


async def drink(reader: SpoolReader, offset: int = 0) -> bytes:
    return b"".join([piece.body async for piece in reader.follow(offset)])


def test_output_is_there_as_soon_as_it_is_written(tmp_path: Path) -> None:
    async def check() -> None:
        spool, bell = make_spool(tmp_path), Bell()
        writer, reader = spool.write(KEY, bell), spool.read(KEY, bell)
        assert await reader.read() == b""
        assert writer.write(b"one ") == 4
        assert await reader.read() == b"one "
        writer.write(b"two")
        assert await reader.read(4) == b"two"
        assert await reader.read(1, 2) == b"ne"
        assert await reader.read(100) == b""
        assert writer.close() == Extent(7, ended=True)

    asyncio.run(check())


def test_a_program_that_says_nothing_leaves_no_file(tmp_path: Path) -> None:
    writer = make_spool(tmp_path).write(KEY, Bell())
    writer.write(b"")
    writer.close()
    assert os.listdir(tmp_path) == []


def test_a_follower_waits_for_more_and_stops_at_the_end(tmp_path: Path) -> None:
    async def check() -> None:
        spool, bell = make_spool(tmp_path), Bell()
        writer, reader = spool.write(KEY, bell), spool.read(KEY, bell)
        pieces = reader.follow()
        for number in range(3):
            coming = asyncio.ensure_future(anext(pieces))
            await asyncio.sleep(0)
            assert not coming.done()
            writer.write(b"line\n")
            assert await coming == Piece(5 * number, b"line\n")
        writer.close()
        assert [piece async for piece in pieces] == []

    asyncio.run(check())


def test_followers_from_any_offset_see_the_rest_of_one_stream(tmp_path: Path) -> None:
    async def check() -> None:
        spool, bell = make_spool(tmp_path), Bell()
        writer = spool.write(KEY, bell)
        followers = [asyncio.ensure_future(drink(spool.read(KEY, bell), offset)) for offset in (0, 1, 500, 4999, 9000)]
        await asyncio.sleep(0)
        await asyncio.to_thread(write_all, writer.write, 500)
        writer.close()
        whole = b"0123456789" * 500
        assert await asyncio.gather(*followers) == [whole, whole[1:], whole[500:], whole[4999:], b""]

    asyncio.run(check())


def write_all(write: object, times: int) -> None:
    assert callable(write)
    for _ in range(times):
        write(b"0123456789")


def test_a_writer_that_nobody_reads_is_never_held_up(tmp_path: Path) -> None:
    async def check() -> None:
        spool, bell = make_spool(tmp_path), Bell()
        writer = spool.write(KEY, bell)
        pieces = spool.read(KEY, bell).follow()
        writer.write(b"x")
        await anext(pieces)
        assert sum(writer.write(bytes(65_536)) for _ in range(160)) == 10 << 20
        writer.close()
        await pieces.aclose()

    asyncio.run(check())


def test_a_piece_is_never_larger_than_a_mebibyte(tmp_path: Path) -> None:
    async def check() -> None:
        spool, bell = make_spool(tmp_path), Bell()
        writer = spool.write(KEY, bell)
        writer.write(bytes((5 << 20) // 2))
        writer.close()
        pieces = [piece async for piece in spool.read(KEY, bell).follow()]
        assert [(piece.offset, len(piece.body)) for piece in pieces] == [
            (0, 1 << 20),
            (1 << 20, 1 << 20),
            (2 << 20, 1 << 19),
        ]

    asyncio.run(check())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(0, 200))
def test_a_capped_stream_is_the_beginning_of_the_whole_and_counts_the_rest(
    tmp_path_factory: pytest.TempPathFactory, writes: list[bytes], cap: int
) -> None:
    spool, whole = make_spool(tmp_path_factory.mktemp("spool"), cap), b"".join(writes)
    writer = spool.write(KEY, Bell())
    kept = sum(writer.write(data) for data in writes)
    assert kept == min(cap, len(whole))
    assert writer.close() == Extent(kept, len(whole) - kept, ended=True)
    assert asyncio.run(drink(spool.read_ended(KEY))) == whole[:cap]


def test_a_cut_is_marked_for_who_reads_it_later(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, cap=5)
    writer = spool.write(KEY, Bell())
    writer.write(b"1234567")
    assert spool.read_ended(KEY).signal.extent() == Extent(5, 2, ended=True)
    writer.write(b"890")
    writer.close()
    assert spool.read_ended(KEY).signal.extent() == Extent(5, 5, ended=True)


def test_a_writer_that_is_opened_again_goes_on_where_the_stream_ends(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, cap=8)
    spool.write(KEY, Bell()).write(b"12345")
    bell = Bell()
    writer = spool.write(KEY, bell)
    assert bell.extent() == Extent(5)
    assert writer.write(b"67890") == 3
    assert writer.close() == Extent(8, 2, ended=True)
    assert spool.write(KEY, Bell()).extent == Extent(8, 2)
    assert asyncio.run(drink(spool.read_ended(KEY))) == b"12345678"


def test_nothing_is_written_behind_the_end(tmp_path: Path) -> None:
    writer = make_spool(tmp_path).write(KEY, Bell())
    writer.close()
    with pytest.raises(ValueError, match="ended"):
        writer.write(b"late")


def test_attempts_and_streams_do_not_mix(tmp_path: Path) -> None:
    spool = make_spool(tmp_path)
    keys = [
        SpoolKey(TaskId(task), Fence(fence), stream)
        for task in (1, 11)
        for fence in (1, 2)
        for stream in ("out", "err")
    ]
    for key in keys:
        spool.write(key, Bell()).write(repr(key).encode())
    assert set(spool.list()) == set(keys)
    for key in keys:
        assert asyncio.run(drink(spool.read_ended(key))) == repr(key).encode()


def test_what_is_removed_is_gone_and_its_mark_too(tmp_path: Path) -> None:
    spool = make_spool(tmp_path, cap=1)
    spool.write(KEY, Bell()).write(b"123")
    (tmp_path / "notes.txt").write_text("mine")
    spool.remove(KEY)
    spool.remove(KEY)
    assert os.listdir(tmp_path) == ["notes.txt"]
    assert spool.list() == []


def test_a_stream_removed_under_its_reader_is_broken_and_not_ended(tmp_path: Path) -> None:
    async def check() -> None:
        spool, bell = make_spool(tmp_path), Bell()
        writer = spool.write(KEY, bell)
        writer.write(b"content")
        spool.remove(KEY)
        with pytest.raises(StoreBroken, match="though more was written"):
            await drink(spool.read(KEY, bell))

    asyncio.run(check())


@pytest.mark.parametrize("stream", ["", "a" * 33, "Out", "1out", "../out", "out/err", "out.cut", "out\n", "øut"])
def test_a_name_that_could_leave_the_folder_is_refused(stream: str) -> None:
    with pytest.raises(BadName):
        SpoolKey(TaskId(1), Fence(1), stream)


def test_numbers_below_zero_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadNumber):
        SpoolKey(TaskId(-1), Fence(1), "out")
    with pytest.raises(BadNumber):
        asyncio.run(make_spool(tmp_path).read(KEY, Bell()).read(-1))


def test_a_full_disk_is_told_and_what_was_kept_can_be_read(tmp_path: Path) -> None:
    spool, bell = make_spool(tmp_path), Bell()
    writer = spool.write(KEY, bell)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(StoreFull):
            writer.write(b"0123456789abc")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert bell.extent() == Extent(10)
    writer.write(b"def")
    writer.close()
    assert asyncio.run(drink(spool.read(KEY, bell))) == b"0123456789def"


def test_a_link_in_place_of_a_stream_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "22.3.stdout").symlink_to(tmp_path / "elsewhere")
    with pytest.raises((StoreBroken, StoreReadOnly)):
        make_spool(tmp_path).write(KEY, Bell()).write(b"content")
    assert not (tmp_path / "elsewhere").exists()


def test_a_spool_becomes_a_blob_without_being_whole_in_memory(tmp_path: Path) -> None:
    async def check() -> None:
        spool, bell = make_spool(tmp_path), Bell()
        writer = spool.write(KEY, bell)
        writer.write(bytes(3 << 20))
        writer.close()

        async def pour() -> AsyncIterator[bytes]:
            async for piece in spool.read(KEY, bell).follow():
                yield piece.body

        assert (await MemoryBlobs(FakeClock()).put(pour())).size == 3 << 20

    asyncio.run(check())


def test_a_bell_wakes_all_who_wait_from_any_thread() -> None:
    async def check() -> None:
        bell = Bell()
        waiting = [asyncio.ensure_future(bell.wait(Extent())) for _ in range(5)]
        await asyncio.sleep(0)
        thread = threading.Thread(target=bell.tell, args=(Extent(1),))
        thread.start()
        await asyncio.wait_for(asyncio.gather(*waiting), 60)
        thread.join()
        await asyncio.wait_for(bell.wait(Extent()), 60)

    asyncio.run(check())


def test_a_bell_outlives_the_loop_of_a_reader_that_is_gone() -> None:
    bell, loop = Bell(), asyncio.new_event_loop()
    waiting = loop.create_task(bell.wait(Extent()))
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    bell.tell(Extent(1))
    assert bell.extent() == Extent(1)
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]
