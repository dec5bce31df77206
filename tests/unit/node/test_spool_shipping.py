"""Output goes to the store in pieces that are large enough or old enough, each byte once."""

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ganger.core.clock import Moment
from ganger.core.ids import Fence, TaskId
from ganger.node.shipping import Pace, Shipper, ship
from ganger.node.spool import Bell, Extent, Piece, Spool, SpoolKey
from ganger.runtime.clock import SystemClock
from ganger.testing.clock import FakeClock

KEY = SpoolKey(TaskId(22), Fence(3), "stdout")
KIB = 1024


def at(moment: int) -> Moment:
    return Moment(moment)


def test_nothing_is_due_where_nothing_is_new() -> None:
    assert Shipper().wait(at(0)) is None
    assert Shipper().note(Extent()).wait(at(9_999)) is None
    assert Shipper().note(Extent(ended=True)).wait(at(0)) is None


def test_a_line_that_comes_alone_goes_at_once() -> None:
    assert Shipper().note(Extent(1)).wait(at(1000)) == 0
    assert Shipper().note(Extent(1)).ship(1, at(1000)).note(Extent(2)).wait(at(1250)) == 0


def test_small_pieces_are_a_quarter_of_a_second_apart() -> None:
    shipper = Shipper().note(Extent(1)).ship(1, at(1000)).note(Extent(2))
    assert [shipper.wait(at(moment)) for moment in (1000, 1200, 1249, 1250, 1300)] == [250, 50, 1, 0, 0]


def test_a_large_piece_is_due_at_once() -> None:
    shipper = Shipper(last=at(1000))
    assert shipper.note(Extent(64 * KIB - 1)).wait(at(1000)) == 250
    assert shipper.note(Extent(64 * KIB)).wait(at(1000)) == 0


def test_the_rest_is_due_when_the_stream_ends() -> None:
    assert Shipper(last=at(1000)).note(Extent(1, ended=True)).wait(at(1000)) == 0


def test_what_is_sent_is_not_due_again() -> None:
    shipper = Shipper().note(Extent(10)).ship(10, at(1000))
    assert shipper.wait(at(5000)) is None
    assert shipper.note(Extent(10)).wait(at(5000)) is None
    assert shipper.note(Extent(11)).wait(at(5000)) == 0


def test_a_shipper_that_starts_again_begins_where_the_store_is() -> None:
    shipper = Shipper(sent=10)
    assert shipper.note(Extent(10)).wait(at(2000)) is None
    assert shipper.note(Extent(12)).wait(at(2000)) == 0


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 400)), max_size=30))
def test_no_byte_waits_longer_than_the_pace_allows(steps: list[tuple[int, int]]) -> None:
    shipper, now, length, first = Shipper(), 0, 0, 0
    for grown, passed in steps:
        first = now if shipper.sent == length else first
        length += grown
        shipper = shipper.note(Extent(length))
        wait = shipper.wait(at(now))
        assert (wait is None) == (shipper.sent == length)
        assert not wait or (wait <= first + 250 - now and length - shipper.sent < 64 * KIB)
        shipper = shipper.ship(length - shipper.sent, at(now)) if wait == 0 else shipper
        now += min(passed, wait) if wait else passed


def test_pieces_of_a_stream_come_large_while_it_runs_fast(tmp_path: Path) -> None:
    async def check() -> None:
        spool, bell = Spool(tmp_path, 1 << 30), Bell()
        writer = spool.write(KEY, bell)
        pieces = ship(spool.read(KEY, bell), FakeClock())
        writer.write(b"first")
        assert await anext(pieces) == Piece(0, b"first")
        coming = asyncio.ensure_future(anext(pieces))
        for _ in range(63):
            writer.write(bytes(KIB))
            await asyncio.sleep(0)
        assert not coming.done()
        writer.write(bytes(KIB))
        assert await coming == Piece(5, bytes(64 * KIB))
        await pieces.aclose()

    asyncio.run(check())


def test_a_slow_line_is_shipped_by_its_age(tmp_path: Path) -> None:
    async def check() -> None:
        spool, bell = Spool(tmp_path, 1 << 30), Bell()
        writer = spool.write(KEY, bell)
        pieces = ship(spool.read(KEY, bell), SystemClock(), pace=Pace(patience=20))
        for offset in (0, 7):
            writer.write(b"a line\n")
            assert await asyncio.wait_for(anext(pieces), 60) == Piece(offset, b"a line\n")
        await pieces.aclose()

    asyncio.run(check())


def test_the_end_ships_the_rest_at_once_and_stops(tmp_path: Path) -> None:
    async def check() -> None:
        spool, bell = Spool(tmp_path, 1 << 30), Bell()
        writer = spool.write(KEY, bell)
        shipping = asyncio.ensure_future(gather_pieces(spool, bell, sent=2))
        await asyncio.sleep(0)
        writer.write(b"content")
        writer.close()
        assert await shipping == [Piece(2, b"ntent")]

    asyncio.run(check())


async def gather_pieces(spool: Spool, bell: Bell, sent: int) -> list[Piece]:
    return [piece async for piece in ship(spool.read(KEY, bell), FakeClock(), sent)]


def test_an_empty_stream_ships_nothing(tmp_path: Path) -> None:
    spool, bell = Spool(tmp_path, 1 << 30), Bell()
    spool.write(KEY, bell).close()
    assert asyncio.run(gather_pieces(spool, bell, sent=0)) == []


def test_a_backlog_is_shipped_in_bounded_pieces_that_join_without_a_gap(tmp_path: Path) -> None:
    spool, bell = Spool(tmp_path, 1 << 30), Bell()
    writer = spool.write(KEY, bell)
    content = bytes(range(256)) * 12_000
    writer.write(content)
    writer.close()
    pieces = asyncio.run(gather_pieces(spool, bell, sent=0))
    assert b"".join(piece.body for piece in pieces) == content
    assert [piece.offset for piece in pieces] == [0, 1 << 20, 2 << 20]
