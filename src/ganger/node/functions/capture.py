"""Output of functions: what they print belongs to the task that is executed at that moment.

A process that executes one function at a time writes straight into two files that the node made and keeps open, so
nothing is lost when it dies, and the node can read them while they grow: after each function the files are looked at,
and emptied if there is something. Where many run at once, what Python code prints is kept by context; what C code and
child processes print there is nobody's.
"""

import io
import os
import sys
import threading
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, TextIO

from ganger.core.errors import GangerError
from ganger.node.functions.context import CURRENT, Context
from ganger.node.functions.messages import SMALL
from ganger.node.functions.track import Place, Printed, Track, say_fault
from ganger.node.masking import mask_pieces
from ganger.node.spool import SpoolKey
from ganger.runtime.disk import NO_SPACE
from ganger.wire.cuts import FULL

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

STREAMS: Final = ("stdout", "stderr")
_PIECE: Final = 1 << 20


class FileCapture:
    """Standard output and error are files, one function at a time."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._lock = threading.Lock()
        self._trimmed = {1: 0, 2: 0}
        self._files = {fd: Patient(fd) for fd in (1, 2)}
        sys.stdout, sys.stderr = map(_open_text, self._files.values())

    def collect(self, context: Context) -> Printed | None:
        """What was printed since the last time; None for nothing, which is the usual case and costs two calls."""
        first, second = os.lseek(1, 0, os.SEEK_END), os.lseek(2, 0, os.SEEK_END)
        if not (first or second or context.tracks or any(file.is_short for file in self._files.values())):
            return None
        printed = Printed({}, {}, [], {})
        with self._lock:
            for fd in (1, 2):
                self._collect(fd, context, printed)
        collect_tracks(context, printed)
        return printed

    def _collect(self, fd: int, context: Context, printed: Printed) -> None:
        size, (head, lost) = os.lseek(fd, 0, os.SEEK_END), self._files[fd].take()
        if size or head:
            name = STREAMS[fd - 1]
            pieces = mask_pieces(chain(_read(fd, size), (head,) if head else ()), context.masks)
            _put(printed, self.place, SpoolKey(context.task, context.fence, name), pieces)
            os.ftruncate(fd, 0)
            if head:
                printed.faults[name] = FULL
            if missing := self._trimmed[fd] + lost:
                printed.cut[name] = printed.cut.get(name, 0) + missing
                self._trimmed[fd] = 0

    def trim(self) -> None:
        """Cut off what is beyond the cap while the function runs: whoever prints without end must not fill the disk."""
        with self._lock:
            for fd in (1, 2):
                beyond = os.lseek(fd, 0, os.SEEK_END) - self.place.cap
                if beyond > 0:
                    os.ftruncate(fd, self.place.cap)
                    self._trimmed[fd] += beyond


class Patient(io.FileIO):
    """Standard output or error as a file that does not fail for lack of space: a function goes on all the same.

    What the disk did not take is kept here as far as it is small, and counted.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "wb", closefd=False)
        self._head = bytearray()
        self._lost = 0

    @property
    def is_short(self) -> bool:
        return bool(self._head)

    def write(self, data: "Buffer") -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest and not self._head:
                rest = rest[super().write(rest) :]
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
        kept = rest[: max(0, SMALL - len(self._head))]
        self._head += kept
        self._lost += len(rest) - len(kept)
        return size

    def take(self) -> tuple[bytes, int]:
        """What it has kept and how much is lost, since the last time."""
        head, lost = bytes(self._head), self._lost
        self._head.clear()
        self._lost = 0
        return head, lost


def _open_text(file: Patient) -> io.TextIOWrapper:
    # Unbuffered, as all is below (`-u`): what was printed before a crash is seen, and nothing is flushed.
    return io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", write_through=True)


def _read(fd: int, size: int) -> Iterator[bytes]:
    return (os.pread(fd, min(_PIECE, size - at), at) for at in range(0, size, _PIECE))


class ContextCapture:
    """Standard output and error know by their context whose words they are given."""

    def __init__(self, place: Place) -> None:
        self.place = place
        sys.stdout = _Teller(sys.stdout, "stdout")
        sys.stderr = _Teller(sys.stderr, "stderr")

    def collect(self, context: Context) -> Printed | None:
        if not context.tracks:
            return None
        printed = Printed({}, {}, [], {})
        collect_tracks(context, printed)
        return printed

    def trim(self) -> None:
        """What belongs to nobody is read by nobody, unless the process dies: then its end is."""
        for fd in (1, 2):
            if os.lseek(fd, 0, os.SEEK_END) > self.place.cap:
                os.ftruncate(fd, 0)


class _Teller(io.TextIOBase):
    """A stream for text that hands what it is given to the context of the giver."""

    def __init__(self, below: TextIO, name: str) -> None:
        self._below = below
        self._name = name

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        context = CURRENT.get(None)
        if context is None:
            return self._below.write(text)
        context.pen(self._name).write(text)
        return len(text)

    def flush(self) -> None:
        self._below.flush()

    def fileno(self) -> int:
        return self._below.fileno()


def collect_tracks(context: Context, printed: Printed) -> None:
    """What a context kept by itself."""
    for track in context.tracks.values():
        if isinstance(track, Track):
            track.collect(printed)


def _put(printed: Printed, place: Place, key: SpoolKey, pieces: Iterator[bytes]) -> None:
    first = next(pieces, b"")
    rest = next(pieces, b"")
    if not rest and len(first) <= SMALL:
        printed.said[key.stream] = first
        return
    head, lost = (first + rest)[:SMALL], len(first) + len(rest)
    try:
        writer = place.write(key)
        for piece in (first, rest):
            writer.write(piece)
        for piece in pieces:
            lost += len(piece)
            writer.write(piece)
        extent = writer.close()
    except GangerError as error:
        lost += sum(map(len, pieces))
        printed.said[key.stream], printed.cut[key.stream] = head, lost - len(head)
        printed.faults[key.stream] = say_fault(error)
        return
    printed.spooled.append(key.stream)
    if extent.dropped:
        printed.cut[key.stream] = extent.dropped
