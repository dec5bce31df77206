"""Output of functions: what they print belongs to the task that is executed at that moment.

A process that executes one function at a time writes straight into two files that the node made and keeps open, so
nothing is lost when it dies: after each function the files are looked at, and emptied if there is something. Where many
run at once, what Python code prints is kept by context; what C code and child processes print there is nobody's.
"""

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from ganger.node.functions.context import CURRENT, Context
from ganger.node.functions.messages import SMALL
from ganger.node.spool import Bell, Spool, SpoolKey

STREAMS: Final = ("stdout", "stderr")
_PIECE: Final = 1 << 20


class Printed(NamedTuple):
    """Small streams by name, what was cut off, and the names of those that are in the spool."""

    said: dict[str, bytes]
    cut: dict[str, int]
    spooled: list[str]


class Place(NamedTuple):
    """Where large streams go."""

    spool: str
    cap: int


class FileCapture:
    """Standard output and error are files, one function at a time."""

    def __init__(self, place: Place) -> None:
        self._place = place
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # Unbuffered: what was printed before a crash is seen, and nothing has to be flushed.
                stream.reconfigure(encoding="utf-8", errors="backslashreplace", write_through=True)

    def collect(self, context: Context) -> Printed | None:
        """What was printed since the last time; None for nothing, which is the usual case and costs two calls."""
        first, second = os.lseek(1, 0, os.SEEK_END), os.lseek(2, 0, os.SEEK_END)
        if not (first or second or context.logged):
            return None
        printed = Printed({}, {}, [])
        for fd, size in ((1, first), (2, second)):
            if size:
                _put(printed, self._place, context, STREAMS[fd - 1], _read(fd, size))
                os.ftruncate(fd, 0)
        _put_log(printed, self._place, context)
        return printed


def _read(fd: int, size: int) -> Iterator[bytes]:
    return (os.pread(fd, min(_PIECE, size - at), at) for at in range(0, size, _PIECE))


class ContextCapture:
    """Standard output and error know by their context whose words they are given."""

    def __init__(self, place: Place) -> None:
        self._place = place
        sys.stdout = _Teller(sys.stdout, "stdout")
        sys.stderr = _Teller(sys.stderr, "stderr")

    def collect(self, context: Context) -> Printed | None:
        if not (context.streams or context.logged):
            return None
        printed = Printed({}, {}, [])
        for name, texts in (context.streams or {}).items():
            _put(printed, self._place, context, name, iter(["".join(texts).encode("utf-8", "backslashreplace")]))
        _put_log(printed, self._place, context)
        return printed


class _Teller(io.TextIOBase):
    """A stream for text that keeps what it is given in the context of the giver."""

    def __init__(self, below: TextIO, name: str) -> None:
        self._below = below
        self._name = name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        context = CURRENT.get(None)
        if context is None:
            return self._below.write(text)
        if context.streams is None:
            context.streams = {}
        context.streams.setdefault(self._name, []).append(text)
        return len(text)

    def flush(self) -> None:
        self._below.flush()

    def fileno(self) -> int:
        return self._below.fileno()


def _put_log(printed: Printed, place: Place, context: Context) -> None:
    if context.logged:
        body = "".join(context.logged).encode("utf-8", "backslashreplace")
        _put(printed, place, context, "log", iter([body]))


def _put(printed: Printed, place: Place, context: Context, name: str, pieces: Iterator[bytes]) -> None:
    first = next(pieces, b"")
    rest = next(pieces, b"")
    if not rest and len(first) <= SMALL:
        printed.said[name] = first
        return
    writer = Spool(Path(place.spool), place.cap).write(SpoolKey(context.task, context.fence, name), Bell())
    for piece in (first, rest, *pieces):
        writer.write(piece)
    extent = writer.close()
    printed.spooled.append(name)
    if extent.dropped:
        printed.cut[name] = extent.dropped
