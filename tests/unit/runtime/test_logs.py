"""A log has a line for each event, and holds nobody up."""

import io
import json
import threading
from pathlib import Path

import pytest

from ganger.runtime.logs import LineLog, LogFormat, write_line
from ganger.testing.clock import FakeClock


class Stuck:
    """A stream that nobody reads until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.third = threading.Event()
        self.text = ""

    def write(self, text: str, /) -> None:
        self.entered.set()
        self.open.wait(60)
        self.text += text
        if '"number":2' in text:
            self.third.set()

    def flush(self) -> None:
        return None


class Gone:
    def write(self, text: str, /) -> None:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


def test_each_event_is_one_line_of_json() -> None:
    stream = io.StringIO()
    log = LineLog(stream, LogFormat.JSON, FakeClock())
    log.event("task_settled", task=22, reason="it\nbroke")
    log.event("odd", path=Path("/x"), error=ValueError("no"), what={1: object}, many=("a", None, 1.5))
    log.close()
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert (first["event"], first["task"], first["reason"]) == ("task_settled", 22, "it\nbroke")
    assert first["at"].endswith("Z")
    assert (second["path"], second["error"], second["many"]) == ("/x", "no", ["a", None, 1.5])


def test_a_line_for_people_cannot_be_forged() -> None:
    line = write_line(LogFormat.TEXT, 0, "task_held", {"task": 1, "reason": "x\n1970-01-01 task_settled"})
    assert line == '1970-01-01T00:00:00.000Z task_held task=1 reason="x\\n1970-01-01 task_settled"\n'
    assert write_line(LogFormat.TEXT, 0, "quiet", {}) == "1970-01-01T00:00:00.000Z quiet\n"


@pytest.mark.parametrize("value", [float("nan"), "\ud800", b"bytes", 1 << 80, {"a": {"b": set()}}, "x" * 100_000])
def test_no_value_keeps_an_event_out_of_the_log(value: object) -> None:
    for form in LogFormat:
        line = write_line(form, 0, "odd", {"value": value})
        assert "odd" in line
        assert line.count("\n") == 1
        assert len(line) < 20_000


def test_whoever_does_not_read_holds_nobody_up_and_is_told_what_was_dropped() -> None:
    stream = Stuck()
    log = LineLog(stream, LogFormat.JSON, FakeClock(), most=3)
    log.event("first")
    assert stream.entered.wait(60)
    for number in range(10):
        log.event("many", number=number)
    stream.open.set()
    assert stream.third.wait(60)
    log.event("after")
    log.close()
    told = [json.loads(line) for line in stream.text.splitlines()]
    assert [line["event"] for line in told] == ["first", *["many"] * 3, "log_dropped", "after"]
    assert told[-2]["lines"] == 7


def test_a_reader_that_is_gone_is_no_error() -> None:
    log = LineLog(Gone(), LogFormat.TEXT, FakeClock())
    for _ in range(5):
        log.event("any")
    log.close()
