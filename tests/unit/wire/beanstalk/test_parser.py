"""What clients of beanstalkd send, as events: whole or in pieces, well formed or not."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganger.wire.beanstalk import replies
from ganger.wire.beanstalk.commands import (
    MOST_ID,
    Bury,
    Command,
    Delete,
    Event,
    Ignore,
    Kick,
    KickJob,
    ListTubes,
    ListTubesWatched,
    ListTubeUsed,
    PauseTube,
    Peek,
    PeekBuried,
    PeekDelayed,
    PeekReady,
    Put,
    PutBegun,
    PutEnded,
    PutPiece,
    Quit,
    Refused,
    Release,
    Reserve,
    ReserveJob,
    Stats,
    StatsJob,
    StatsTube,
    Touch,
    Use,
    Watch,
)
from ganger.wire.beanstalk.parser import LONGEST_LINE, Parser

LARGEST = 100
BAD = Refused(replies.BAD_FORMAT)
UNKNOWN = Refused(replies.UNKNOWN_COMMAND)


def parse(data: bytes, inline: int = 50) -> list[Event]:
    return Parser(LARGEST, inline).feed(data)


GOOD: list[tuple[bytes, Command]] = [
    (b"use a", Use("a")),
    (b"use " + b"a" * 200, Use("a" * 200)),
    (b"use a;.$_()/+-", Use("a;.$_()/+-")),
    (b"reserve", Reserve()),
    (b"reserve-with-timeout 5", Reserve(5, asked=True)),
    (b"reserve-with-timeout -1", Reserve(None, asked=True)),
    (b"reserve-with-timeout x", Reserve(0, asked=True)),
    (b"reserve-with-timeout 3 x", Reserve(3, asked=True)),
    (b"reserve-job 7", ReserveJob(7)),
    (b"delete 01", Delete(1)),
    (b"delete  1", Delete(1)),
    (b"delete %d" % MOST_ID, Delete(MOST_ID)),
    (b"release 1  2 3", Release(1, 2, 3)),
    (b"bury 1 2", Bury(1, 2)),
    (b"touch 1", Touch(1)),
    (b"watch a", Watch("a")),
    (b"ignore a", Ignore("a")),
    (b"peek 1", Peek(1)),
    (b"peek-ready", PeekReady()),
    (b"peek-delayed", PeekDelayed()),
    (b"peek-buried", PeekBuried()),
    (b"kick 5", Kick(5)),
    (b"kick 5 x", Kick(5)),
    (b"kick -1", Kick((1 << 32) - 1)),
    (b"kick-job 5", KickJob(5)),
    (b"stats-job 5", StatsJob(5)),
    (b"stats-tube a", StatsTube("a")),
    (b"stats", Stats()),
    (b"list-tubes", ListTubes()),
    (b"list-tube-used", ListTubeUsed()),
    (b"list-tubes-watched", ListTubesWatched()),
    (b"pause-tube  a  5", PauseTube("a", 5)),
    (b"quit", Quit()),
    (b"quit now", Quit()),
]

REFUSED: list[tuple[bytes, Refused]] = [
    (b"", UNKNOWN),
    (b"foo", UNKNOWN),
    (b"USE a", UNKNOWN),
    (b" use a", UNKNOWN),
    (b"delete\t1", UNKNOWN),
    *((verb, UNKNOWN) for verb in (b"put", b"use", b"delete", b"peek", b"kick", b"kick-job", b"watch", b"ignore")),
    *((verb, BAD) for verb in (b"reserve-with-timeout", b"reserve-job", b"stats-tube", b"pause-tube")),
    *((line, BAD) for line in (b"reserve ", b"reserve x", b"statsx", b"list-tubesx", b"peek-buriedx")),
    *((b"use " + name, BAD) for name in (b"", b"-a", b"a b", b"a*", b"a\0b", b"a\rb", b" a", b"a" * 201)),
    *((b"delete " + number, BAD) for number in (b"", b"x", b"-1", b"1 ", b"1 2", b"%d" % (MOST_ID + 1))),
    *((b"release " + numbers, BAD) for numbers in (b"1", b"1 x 1", b"1 1 1 ", b"1 4294967296 1")),
    *((b"pause-tube " + words, BAD) for words in (b"a", b"a x", b"a 1 x", b"-a 1")),
    (b"kick x", BAD),
    (b"kick 99999999999999999999999", BAD),
    (b"reserve-with-timeout 99999999999999999999999", BAD),
]


@pytest.mark.parametrize(("line", "command"), GOOD)
def test_a_command_is_read(line: bytes, command: Command) -> None:
    assert parse(line + b"\r\n") == [command]


@pytest.mark.parametrize(("line", "refused"), REFUSED)
def test_what_is_no_command_is_refused_and_the_next_is_read(line: bytes, refused: Refused) -> None:
    assert parse(line + b"\r\nuse ok\r\n") == [refused, Use("ok")]


@pytest.mark.parametrize("size", [LONGEST_LINE, LONGEST_LINE + 1, 10_000])
def test_a_line_that_is_too_long_swallows_nothing(size: int) -> None:
    assert parse(b"a" * (size - 1) + b"\r\nuse ok\r\n") == [BAD, Use("ok")]


def test_the_longest_line_is_read() -> None:
    assert parse(b"a" * (LONGEST_LINE - 2) + b"\r\nuse ok\r\n") == [UNKNOWN, Use("ok")]


def test_nothing_is_read_behind_a_quit() -> None:
    parser = Parser(LARGEST)
    assert parser.feed(b"quit\r\nuse a\r\n") == [Quit()]
    assert parser.feed(b"use b\r\n") == []


@pytest.mark.parametrize("body", [b"", b"a", b"\r\n", b"use x\r\n", b"\0" * 50])
def test_a_put_comes_with_its_body(body: bytes) -> None:
    assert parse(b"put 1 2 3 %d\r\n%b\r\nuse ok\r\n" % (len(body), body)) == [Put(1, 2, 3, body), Use("ok")]


def test_a_large_body_comes_in_pieces() -> None:
    parser, body = Parser(LARGEST, inline=10), b"0123456789" * 8
    events = parser.feed(b"put 1 2 3 80\r\n" + body[:30])
    assert events == [PutBegun(1, 2, 3, 80), PutPiece(body[:30])]
    assert parser.feed(body[30:] + b"\r\nuse ok\r\n") == [PutPiece(body[30:]), PutEnded(True), Use("ok")]


@pytest.mark.parametrize("inline", [1, 50])
def test_a_body_that_does_not_end_where_it_should_is_no_command(inline: int) -> None:
    *_, refused, last = parse(b"put 1 2 3 5\r\nabcdefghij\r\nuse ok\r\n", inline)
    assert (refused, last) == (Refused(replies.EXPECTED_CRLF, put=True), Use("ok"))


def test_a_large_body_that_does_not_end_where_it_should_is_not_whole() -> None:
    assert PutEnded(False) in parse(b"put 1 2 3 5\r\nabcdefghij\r\n", inline=1)


@pytest.mark.parametrize(
    "numbers", [b"1 2 3 9 ", b"x 2 3 9", b"-1 2 3 9", b"4294967296 2 3 9", b"1 2 0x10 9", b"1 2 3 9 9"]
)
def test_the_body_of_a_refused_put_is_skipped(numbers: bytes) -> None:
    assert parse(b"put %b\r\nuse bad\r\n\r\nuse ok\r\n" % numbers) == [Refused(replies.BAD_FORMAT, put=True), Use("ok")]


def test_the_body_of_a_job_that_is_too_big_is_skipped() -> None:
    body = b"use bad\r\n" * 100
    events = parse(b"put 1 2 3 900\r\n" + body + b"\r\nuse ok\r\n")
    assert events == [Refused(replies.JOB_TOO_BIG, put=True), Use("ok")]


@pytest.mark.parametrize("numbers", [b"1 2 3", b"1 2 3 x", b"1 2 3 -1", b"1 2 3 4294967296", b""])
def test_where_nobody_knows_how_long_a_body_is_the_connection_is_over(numbers: bytes) -> None:
    parser = Parser(LARGEST)
    assert parser.feed(b"put " + numbers + b"\r\nuse bad\r\n") == [Refused(replies.BAD_FORMAT, over=True, put=True)]
    assert parser.feed(b"use worse\r\n") == []


WORDS = [line for line, _ in GOOD if not line.startswith(b"quit")] + [line for line, _ in REFUSED]
PUTS = st.builds(lambda body, size: b"put 1 2 3 %d\r\n%b" % (size, body), st.binary(max_size=130), st.integers(0, 130))


def put_together(events: list[Event]) -> list[Event]:
    """With the pieces of one body as one: how a body is cut is no matter."""
    joined: list[Event] = []
    for is_piece, some in groupby(events, lambda event: isinstance(event, PutPiece)):
        pieces = list(some)
        body = b"".join(piece.data for piece in pieces if isinstance(piece, PutPiece))
        joined += [PutPiece(body)] if is_piece else pieces
    return joined


@given(
    st.lists(st.one_of(st.sampled_from(WORDS), PUTS, st.binary(max_size=300)), max_size=8),
    st.lists(st.integers(0, 3_000), max_size=12),
)
def test_however_the_bytes_are_cut_the_events_are_the_same(lines: list[bytes], cuts: list[int]) -> None:
    data = b"".join(line + b"\r\n" for line in lines)
    parser, events = Parser(LARGEST, inline=50), list[Event]()
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        events += parser.feed(data[start:end])

    assert put_together(events) == put_together(parse(data))


def test_one_byte_at_a_time_is_as_good_as_all_at_once() -> None:
    data = b"put 1 2 3 80\r\n" + b"x" * 80 + b"\r\n" + b"a" * 300 + b"\r\nput 1 2 3 4\r\nabcd\r\nuse ok\r\n"
    parser = Parser(LARGEST)
    assert [event for byte in data for event in parser.feed(bytes([byte]))] == Parser(LARGEST).feed(data)


def test_answers_are_those_of_the_original() -> None:
    assert replies.tell_list(["default", "x"]) == b"OK 18\r\n---\n- default\n- x\n\r\n"
    assert replies.tell_fields([("id", 1), ("tube", "default")]) == b"OK 24\r\n---\nid: 1\ntube: default\n\r\n"
    assert replies.reserved(7, b"ab") == b"RESERVED 7 2\r\nab\r\n"
    assert replies.found(7, b"") == b"FOUND 7 0\r\n\r\n"
    assert replies.head_of("RESERVED", 7, 9) == b"RESERVED 7 9\r\n"
    assert (replies.inserted(1), replies.using("a")) == (b"INSERTED 1\r\n", b"USING a\r\n")
    assert (replies.watching(2), replies.kicked(3)) == (b"WATCHING 2\r\n", b"KICKED 3\r\n")
