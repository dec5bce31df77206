"""Frames are whole or an error, and two versions find the protocol that both speak."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.node.guardian.messages import (
    LARGEST_FRAME,
    BadFrame,
    Caps,
    End,
    Forget,
    Frames,
    FromGuardian,
    FromNode,
    Grew,
    Hello,
    Listing,
    Start,
    Started,
    Stop,
    Trust,
    Usage,
    agree,
    pack,
    read_from_guardian,
    read_from_node,
)

ORDERS: list[FromNode] = [
    Hello(3),
    Start(1, 2, ["a", "ü"], {"PATH": "/bin"}, "/", 99, stdin=b"\0\xff", caps=Caps(cpu=1), timeout=5),
    Stop(1, 2, "stop", "why"),
    Trust([(1, 2, 3), (4, 5, 6)]),
    Forget([(1, 2)]),
]


@pytest.mark.parametrize(
    ("newest", "oldest", "ours", "least", "chosen"),
    [
        (1, 1, 1, 1, 1),
        (2, 1, 1, 1, 1),
        (1, 1, 2, 1, 1),
        (3, 2, 2, 1, 2),
        (2, 2, 3, 2, 2),
        (3, 3, 2, 1, None),
        (1, 1, 3, 2, None),
    ],
)
def test_the_newest_protocol_that_both_speak_is_chosen(
    newest: int, oldest: int, ours: int, least: int, chosen: int | None
) -> None:
    assert agree(newest, oldest, ours, least) == chosen


@given(st.lists(st.integers(1, 40), max_size=40))
def test_frames_come_whole_however_they_are_cut(cuts: list[int]) -> None:
    raw = b"".join(pack([order]) for order in ORDERS) + pack(ORDERS)
    frames, found = Frames(), []
    for size in [*cuts, len(raw)]:
        part, raw = raw[:size], raw[size:]
        found += [message for body in frames.feed(part) for message in read_from_node(body)]
    assert found == ORDERS * 2


def test_what_a_guardian_says_is_read_as_it_was_said() -> None:
    end = End(1, 2, "exit", code=3, usage=Usage(4, 5, 6), streams={"stdout": (7, 8)}, serial=9)
    said: list[FromGuardian] = [
        Started(1, 2, 3, 4),
        end,
        Listing([Started(1, 2, 3)], [end]),
        Grew([(1, 2, "stdout", 3, 4)]),
    ]
    (body,) = Frames().feed(pack(said))
    assert read_from_guardian(body) == said


def test_a_field_that_is_not_known_is_passed_over() -> None:
    body = msgspec.msgpack.encode([{"type": "stop", "task": 1, "fence": 2, "mood": {"deep": [1]}}])
    assert read_from_node(body) == [Stop(1, 2)]


@pytest.mark.parametrize(
    "body",
    [b"", b"\xc1", b"\x80", msgspec.msgpack.encode([{"type": "dance"}]), msgspec.msgpack.encode([{"type": "stop"}])],
)
def test_what_is_not_a_message_is_an_error(body: bytes) -> None:
    with pytest.raises(BadFrame):
        read_from_node(body)
    with pytest.raises(BadFrame):
        read_from_guardian(body)


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader_in_another_way(body: bytes) -> None:
    for read in (read_from_node, read_from_guardian):
        try:
            read(body)
        except BadFrame:
            continue


def test_a_frame_that_is_too_large_is_refused_at_its_first_bytes() -> None:
    with pytest.raises(BadFrame, match="too large"):
        Frames().feed((LARGEST_FRAME + 1).to_bytes(4, "big"))
