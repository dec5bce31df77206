"""A log of what running parts tell: one line for each event, for people or as JSON.

What can go wrong, and why this is right:

- *Nobody reads.* A full pipe would hold up whoever writes to it, and that is the middle of an event loop. So a thread
  of its own writes; before it stands a queue that is bounded, and what has no room there is dropped and counted, and
  the number is in the log as soon as there is room again.
- *A name holds a line break*, or something else that would look like a line of its own. Every value is written as JSON,
  in the form for people too.
- *A value cannot be written.* Then its text is; an event is never lost for what it carries.
"""

import queue
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Protocol

import msgspec

from ganger.core.clock import Clock

MOST: Final = 10_000
_PATIENCE: Final = 2.0
_LONGEST: Final = 8_192


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class Stream(Protocol):
    """Where lines go."""

    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class LineLog:
    """Telemetry that writes lines. Close it at the end."""

    def __init__(self, stream: Stream, form: LogFormat, clock: Clock, most: int = MOST) -> None:
        self._stream = stream
        self._form = form
        self._clock = clock
        self._lines: queue.Queue[str | None] = queue.Queue(most)
        self._dropped = 0
        self._is_over = False
        self._thread = threading.Thread(target=self._write_all, name="log", daemon=True)
        self._thread.start()

    def event(self, name: str, **fields: object) -> None:
        if self._dropped:
            lost, self._dropped = self._dropped, 0
            self._put(write_line(self._form, self._clock.wall(), "log_dropped", {"lines": lost}), lost)
        self._put(write_line(self._form, self._clock.wall(), name, fields), 1)

    def _put(self, line: str, worth: int) -> None:
        if self._is_over:
            return
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._dropped += worth

    def close(self) -> None:
        """Write what is there, unless nobody reads it."""
        if self._is_over:
            return
        try:
            self._lines.put(None, timeout=_PATIENCE)
        except queue.Full:
            return
        self._thread.join(_PATIENCE)

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line)
            except (OSError, ValueError):
                # Whoever read the log is gone. The work goes on without it, and there is nowhere left to say so.
                self._is_over = True
                return

    def _write(self, line: str) -> None:
        try:
            self._stream.write(line)
        except UnicodeEncodeError:
            self._stream.write(line.encode("ascii", "backslashreplace").decode())
        if self._lines.empty():
            self._stream.flush()


def write_line(form: LogFormat, wall: int, name: str, fields: Mapping[str, object]) -> str:
    """One event as one line."""
    at = datetime.fromtimestamp(wall / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if form is LogFormat.JSON:
        return f"{_encode({'at': at, 'event': name, **fields})}\n"
    told = " ".join(f"{field}={_encode(value)}" for field, value in fields.items())
    return f"{at} {name} {told}".rstrip() + "\n"


def _encode(value: object) -> str:
    try:
        text = msgspec.json.encode(value, enc_hook=str).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        text = msgspec.json.encode(repr(value).encode("utf-8", "replace").decode()).decode()
    return text if len(text) <= _LONGEST else msgspec.json.encode(f"{text[:_LONGEST]}...").decode()
