"""From a program's pipes to the spool, byte for byte but for secrets; nothing but the disk ever holds the program up.

The files are those of the node's spool: one per task, fence and stream, made with the first byte, and `.cut` beside it
with the number of bytes that came after the cap. What cannot be kept, because the cap is reached or the disk is full,
is read all the same and counted: a program must not hang because nobody wants its output. On a full disk the space that
was spared is given up first, and each stream is kept for a little longer (`spare.py`).
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ganger.node.guardian.spare import LAST, Spare
from ganger.node.masking import Masker
from ganger.runtime.disk import NO_SPACE
from ganger.wire.cuts import FULL

CHUNK: Final = 1 << 18
"""The most that is read from one pipe before others have their turn."""

MIXED: Final = "mixedout"

_LEFTOVER: Final = 1 << 22
"""No pipe holds more than this once its writers are dead; more than this comes from a stranger, and is left."""


class Sink:
    """One stream's file. `fault` is why the disk did not take all of it; what is in `spare` is given up for it."""

    __slots__ = ("_cap", "_fd", "_is_lowered", "_spare", "dropped", "fault", "length", "path")

    def __init__(self, spool: str, key: tuple[int, int], name: str, cap: int, spare: Spare | None = None) -> None:
        self.length = 0
        self.dropped = 0
        self.fault = ""
        self._spare = spare
        self._is_lowered = False
        self.path = f"{spool}/{key[0]}.{key[1]}.{name}"
        self._cap = cap
        self._fd = -1

    @property
    def extent(self) -> tuple[int, int]:
        return self.length, self.dropped

    @property
    def fd(self) -> int:
        """Below zero as long as there is no file."""
        return self._fd

    def write(self, data: memoryview) -> None:
        kept = self._append(data)
        if kept < len(data):
            self._drop(len(data) - kept)

    def _append(self, data: memoryview) -> int:
        """How much of it could be kept. After the first byte that could not be, none is: a stream has no holes."""
        kept = 0
        if self._spare is not None and self._spare.is_given_up and not self._is_lowered:
            # Another stream met the full disk: what it has gained is for all.
            self._lower_to_last()
        while kept < len(data) and (room := self._cap - self.length) > 0:
            try:
                size = os.write(self._open(), data[kept : kept + room])
            except OSError as error:
                self._lower(error)
            else:
                kept += size
                self.length += size
        return kept

    def _lower(self, error: OSError) -> None:
        """The disk takes no more; but the first time that it is full, a little, where space was spared."""
        if error.errno in NO_SPACE and not self.fault:
            self.fault = FULL
            if self._spare is not None and not self._spare.is_given_up:
                self._spare.release()
            self._lower_to_last()
        else:
            self.fault = self.fault or f"the disk failed: {error.strerror}"
            self._cap = 0

    def _lower_to_last(self) -> None:
        if not self._is_lowered:
            self._is_lowered = True
            self._cap = min(self._cap, self.length + LAST)

    def _open(self) -> int:
        if self._fd < 0:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self.path, flags, 0o600)
        return self._fd

    def _drop(self, size: int) -> None:
        first = not self.dropped
        self.dropped += size
        if self._is_lowered:
            self.fault = self.fault or FULL
        if first:
            self._cap = 0
            self._mark()

    def _mark(self) -> None:
        draft = f"{self.path}.cut~"
        try:
            with open(draft, "w", encoding="ascii") as file:
                file.write(f"{self.dropped}\n")
            os.rename(draft, f"{self.path}.cut")
        except OSError:
            # On a full disk there is no room for the mark either; the end of the attempt carries the number too.
            with suppress(OSError):
                os.unlink(draft)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
        if self.dropped:
            self._mark()


class Twin(Sink):
    """A stream that says what another one says, which is written first: a second name of that one's file."""

    __slots__ = ("_first", "_is_linked")

    def __init__(self, first: Sink, spool: str, key: tuple[int, int], name: str, cap: int) -> None:
        super().__init__(spool, key, name, cap)
        self._first = first
        self._is_linked: bool | None = None

    def write(self, data: memoryview) -> None:
        if self._is_linked is None:
            self._is_linked = self._link()
        if self._is_linked:
            self._follow()
        else:
            super().write(data)

    def _follow(self) -> None:
        self.length, self.fault = self._first.length, self._first.fault
        if self._first.dropped > self.dropped:
            self._drop(self._first.dropped - self.dropped)

    def _link(self) -> bool:
        try:
            os.link(self._first.path, self.path)
        except OSError:
            # Some disks have no second names, and one may be left from before: then all of it is written twice.
            return False
        return True


class Tap:
    """One pipe, and the streams that what comes out of it belongs to. `ahead` counts what the disk may not have yet."""

    __slots__ = ("_masker", "ahead", "fd", "sinks")

    def __init__(self, fd: int, sinks: Sequence[Sink], masks: Sequence[bytes] = ()) -> None:
        self.fd = fd
        self.sinks = sinks
        self.ahead = 0
        self._masker = Masker(masks) if masks else None

    def draw(self, buffer: memoryview) -> int:
        """Take what is there, at most a buffer full. 0: the last writer is gone. -1: there is nothing now."""
        try:
            size = os.readv(self.fd, [buffer])
        except BlockingIOError:
            return -1
        if size:
            self._pour(buffer[:size] if self._masker is None else memoryview(self._masker.feed(bytes(buffer[:size]))))
        return size

    def _pour(self, data: memoryview) -> None:
        for sink in self.sinks if data else ():
            sink.write(data)
        self.ahead += len(data)

    def files(self) -> list[int]:
        """The descriptors of what it has filled."""
        return [sink.fd for sink in self.sinks if sink.fd >= 0]

    def finish(self) -> None:
        """Nothing comes any more: what might have been the beginning of a secret is none."""
        if self._masker is not None:
            self._pour(memoryview(self._masker.finish()))

    def drain(self, buffer: memoryview) -> None:
        """Take the rest, when nobody of the attempt is left to write."""
        left = _LEFTOVER
        while left > 0 and (size := self.draw(buffer)) > 0:
            left -= size


class Pipes:
    """The output of one attempt: the taps that are open, the sinks they fill, and the ends that the program gets."""

    __slots__ = ("sinks", "taps", "writers")

    def __init__(
        self,
        spool: str,
        key: tuple[int, int],
        cap: int,
        merge: bool,
        *,
        masks: Sequence[bytes] = (),
        spare: Spare | None = None,
    ) -> None:
        self.taps: list[Tap] = []
        self.writers: list[int] = []
        names = ("stdout",) if merge else ("stdout", "stderr")
        self.sinks = {name: Sink(spool, key, name, cap, spare) for name in names}
        mixed = Twin(self.sinks["stdout"], spool, key, MIXED, cap) if merge else Sink(spool, key, MIXED, cap, spare)
        self.sinks[MIXED] = mixed
        for name in names:
            self._add(name, masks)

    def _add(self, name: str, masks: Sequence[bytes]) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(reader, False)
        self.taps.append(Tap(reader, (self.sinks[name], self.sinks[MIXED]), masks))
        self.writers.append(writer)

    def hand_over(self) -> None:
        """The program has its ends now, or never will: close ours."""
        while self.writers:
            os.close(self.writers.pop())

    def close_tap(self, tap: Tap) -> None:
        tap.finish()
        self.taps.remove(tap)
        os.close(tap.fd)

    def close(self, buffer: memoryview) -> None:
        """Take what is left in the pipes, and end the streams."""
        self.hand_over()
        for tap in list(self.taps):
            tap.drain(buffer)
            self.close_tap(tap)
        for sink in self.sinks.values():
            sink.close()

    def extents(self) -> dict[str, tuple[int, int]]:
        """How far each stream reaches that has anything in it."""
        return {name: sink.extent for name, sink in self.sinks.items() if sink.length or sink.dropped}

    def faults(self) -> dict[str, str]:
        """Why the disk did not take all of a stream."""
        return {name: sink.fault for name, sink in self.sinks.items() if sink.dropped and sink.fault}


def look(spool: str, key: tuple[int, int]) -> dict[str, tuple[int, int]]:
    """The same, of an attempt of a former guardian, by what is on the disk."""
    found = {name: _look(f"{spool}/{key[0]}.{key[1]}.{name}") for name in ("stdout", "stderr", MIXED)}
    return {name: extent for name, extent in found.items() if any(extent)}


def _look(path: str) -> tuple[int, int]:
    try:
        length = os.stat(path).st_size
    except FileNotFoundError:
        length = 0
    try:
        with open(f"{path}.cut", encoding="ascii") as file:
            return length, int(file.read())
    except (FileNotFoundError, ValueError):
        return length, 0
