"""Frames, whole and broken."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.core.errors import DuplicateKey, StoreFull
from ganger.databases.sqlite.wire import (
    Bye,
    Call,
    Frame,
    Handover,
    Hello,
    Listen,
    Malformed,
    Parser,
    Reply,
    Unlisten,
    Wake,
    Welcome,
    error_of,
    fail,
    pack,
    refuse,
)

FRAMES: list[Frame] = [
    Hello(1, 1, b"0123456789abcdef", 2, "counter", 77),
    Welcome(1, 77),
    refuse(StoreFull("full", free=3)),
    Call(3, 9, True, "submit", msgspec.Raw(msgspec.msgpack.encode(["ada", 1]))),
    Reply(3, 9, msgspec.Raw(msgspec.msgpack.encode({"a": b"\0" * 300}))),
    fail(3, 9, DuplicateKey("taken", key="ada", ids=[1, 2])),
    Listen(["a", "b"]),
    Unlisten(["b"]),
    Wake(["a"]),
    Handover(),
    Bye(),
]


@given(st.lists(st.integers(1, 60), min_size=1))
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(cuts: list[int]) -> None:
    data = b"".join(pack(frame) for frame in FRAMES)
    parser = Parser(1 << 20)
    found: list[Frame] = []
    while data:
        for cut in cuts:
            found += parser.feed(data[:cut])
            data = data[cut:]
    assert found == FRAMES


@given(st.binary(max_size=200))
def test_bytes_that_make_no_sense_are_malformed_and_nothing_worse(data: bytes) -> None:
    parser = Parser(1 << 10)
    try:
        parser.feed(data)
        parser.feed(len(data).to_bytes(4) + data)
    except Malformed:
        return


def test_a_frame_over_the_limit_is_malformed_before_it_is_read() -> None:
    with pytest.raises(Malformed, match="over the limit of 1000"):
        Parser(1_000).feed((1_001).to_bytes(4) + b"x")


def test_an_error_keeps_its_class_and_its_fields() -> None:
    error = error_of(fail(1, 2, DuplicateKey("taken", key="ada", ids=[1, 2])))
    assert type(error) is DuplicateKey
    assert (error.message, error.fields) == ("taken", {"key": "ada", "ids": [1, 2]})


def test_a_frame_of_a_newer_version_with_more_fields_is_understood() -> None:
    body = msgspec.msgpack.encode([2, 5, 77, "something new"])
    assert Parser(1_000).feed(len(body).to_bytes(4) + body) == [Welcome(5, 77)]
