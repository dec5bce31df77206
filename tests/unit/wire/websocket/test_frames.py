"""Frames, however they are cut on their way, against those that another library makes."""

from contextlib import suppress
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame
from websockets.frames import Opcode as Theirs

from ganger.wire.websocket import frames
from ganger.wire.websocket.frames import Control, Decoder, Opcode, Piece, Violation, apply_mask, encode

LARGEST = 1 << 20
SIZES = st.sampled_from([0, 1, 2, 3, 4, 5, 125, 126, 127, 1_000, 65_535, 65_536, 70_000])


def make(opcode: int, data: bytes, *, fin: bool = True) -> bytes:
    """A frame from a client."""
    return Frame(Theirs(opcode), data, fin).serialize(mask=True)


def feed(chunks: list[bytes]) -> list[Piece | Control]:
    decoder = Decoder(LARGEST)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def cut(data: bytes, at: list[int]) -> list[bytes]:
    marks = [0, *sorted(mark % (len(data) + 1) for mark in at), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


@given(st.lists(SIZES, min_size=1, max_size=5), st.lists(st.integers(0, 1 << 20), max_size=8))
def test_a_message_is_the_same_however_it_was_cut(sizes: list[int], at: list[int]) -> None:
    parts = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    last = len(parts) - 1
    wire = b"".join(make(0 if number else 2, part, fin=number == last) for number, part in enumerate(parts))
    found = feed(cut(wire, at))
    assert all(isinstance(piece, Piece) and piece.opcode is Opcode.BINARY for piece in found)
    assert b"".join(piece.data for piece in found) == b"".join(parts)
    assert [isinstance(piece, Piece) and piece.ended for piece in found] == [False] * (len(found) - 1) + [True]


@given(st.lists(st.integers(0, 1 << 20), max_size=8))
def test_control_frames_may_come_in_the_middle_of_a_message(at: list[int]) -> None:
    wire = make(1, b"he", fin=False) + make(9, b"ping") + make(0, b"llo") + make(8, b"\x03\xe8bye")
    found = feed(cut(wire, at))
    assert [one for one in found if isinstance(one, Control)] == [
        Control(Opcode.PING, b"ping"),
        Control(Opcode.CLOSE, b"\x03\xe8bye"),
    ]
    assert b"".join(one.data for one in found if isinstance(one, Piece)) == b"hello"


@given(st.binary(max_size=400))
def test_whatever_comes_is_read_or_refused_and_never_kept(data: bytes) -> None:
    decoder = Decoder(64)
    with suppress(Violation):
        for byte in data:
            decoder.feed(bytes([byte]))
    assert len(decoder._buffer) <= 14 + 125


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_a_mask_that_is_applied_twice_gives_the_data_again(data: bytes, mask: bytes) -> None:
    assert apply_mask(apply_mask(data, mask), mask) == data


@given(SIZES, st.booleans())
def test_frames_of_the_server_are_those_of_the_other_library(size: int, fin: bool) -> None:
    assert encode(Opcode.BINARY, b"x" * size, fin=fin) == Frame(Theirs.BINARY, b"x" * size, fin).serialize(mask=False)


def test_a_reason_that_is_too_long_is_cut_between_characters() -> None:
    told = frames.encode_close(1000, "ü" * 100)[4:]
    assert told.decode() == "ü" * 61
