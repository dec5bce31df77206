"""Output of an attempt on the node that runs it: one plain file per task, fence and stream.

What can go wrong, and why this is right:

- *A slow reader holds the program up.* It cannot: the writer appends to a file and tells a signal, and never looks at
  who reads. What nobody has read yet lies on the disk and not in memory.
- *A program writes without end.* A stream has a cap. What comes after it is counted and dropped, and a mark beside the
  file says so, so that a cut stream is never taken for a whole one. The program goes on.
- *A reader misses the last bytes.* It asks the signal how far the stream reaches before it reads, and waits only for
  something else than that; so nothing that is told in between is lost, and nothing is polled.
- *Two attempts of a task mix their output.* The fence is part of the file's name.

Nothing here is synced: a spool need not outlive the attempt by more than its settle, which puts what is kept into the
store, and a machine that lost its power has lost the attempt as well.
"""

import asyncio
import os
import re
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from ganger.core.errors import BadName, BadNumber, StoreBroken
from ganger.core.ids import Fence, TaskId
from ganger.runtime.disk import opened, read_whole, translated, write_whole
from ganger.runtime.threads import run_whole

LARGEST: Final = 1 << 20
"""No piece is larger: what one store operation carries stays bounded."""

_STREAM: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
_FILE: Final = re.compile(r"(\d{1,19})\.(\d{1,19})\.([a-z][a-z0-9_-]{0,31})", re.ASCII)


@dataclass(frozen=True, slots=True)
class SpoolKey:
    """Whose output it is."""

    task: TaskId
    fence: Fence
    stream: str

    def __post_init__(self) -> None:
        if not _STREAM.fullmatch(self.stream):
            raise BadName(
                f"{self.stream[:80]!r} cannot name a stream: use 1 to 32 of a-z, 0-9, _ and -, a letter first",
                what="stream",
            )
        if self.task < 0 or self.fence < 0:
            raise BadNumber("a task and its fence are not below zero", task=self.task, fence=self.fence)


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a stream and where they begin in it."""

    offset: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a stream reaches, and whether that is all of it. `dropped` counts what came after the cap."""

    length: int = 0
    dropped: int = 0
    ended: bool = False


class Signal(Protocol):
    """How a writer tells readers of a stream that it grew, however many there are and wherever they run."""

    def tell(self, extent: Extent) -> None:
        """Never waits, never fails."""
        ...

    def extent(self) -> Extent:
        """The last that was told."""
        ...

    async def wait(self, seen: Extent) -> None:
        """Return as soon as the extent is another than the one seen, at once if it is that already."""
        ...


class Bell:
    """The signal of one process. A writer in any thread wakes readers in any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._extent = Extent()
        self._waiting: set[asyncio.Future[None]] = set()

    def tell(self, extent: Extent) -> None:
        with self._lock:
            self._extent = extent
            waiting, self._waiting = self._waiting, set()
        for waiter in waiting:
            # A loop that is closed has nobody left to wake, and must not fail the writer.
            with suppress(RuntimeError):
                waiter.get_loop().call_soon_threadsafe(_wake, waiter)

    def extent(self) -> Extent:
        return self._extent

    async def wait(self, seen: Extent) -> None:
        waiter = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._extent != seen:
                return
            self._waiting.add(waiter)
        try:
            await waiter
        finally:
            with self._lock:
                self._waiting.discard(waiter)


def _wake(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class SpoolWriter:
    """Appends a stream to its file. One writer at a time per stream; it may be used from any thread.

    Writing blocks only for the system's copy into its cache, so small writes may come from an event loop. The file is
    made with the first byte: most programs say nothing. A writer that is opened again on a stream goes on at its end.
    """

    def __init__(self, path: Path, cap: int, signal: Signal) -> None:
        self._path = path
        self._cap = cap
        self._signal = signal
        self._fd: int | None = None
        self._extent = look(path)
        signal.tell(self._extent)

    @property
    def path(self) -> Path:
        return self._path

    @property
    def extent(self) -> Extent:
        return self._extent

    def write(self, data: bytes) -> int:
        """Append what the cap leaves room for, and tell it; returns how many bytes were kept.

        Raises StoreFull and the like; what reached the file by then is part of the stream.
        """
        if self._extent.ended:
            raise ValueError(f"the output {self._path.name} has ended")
        kept = memoryview(data)[: max(0, self._cap - self._extent.length)]
        try:
            self._append(kept)
            self._drop(len(data) - len(kept))
        finally:
            self._signal.tell(self._extent)
        return len(kept)

    def close(self) -> Extent:
        """Tell readers that this was all. May be called again."""
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
        self._extent = replace(self._extent, ended=True)
        try:
            if self._extent.dropped:
                self._mark()
        finally:
            self._signal.tell(self._extent)
        return self._extent

    def _append(self, data: memoryview) -> None:
        if not data:
            return
        with translated(f"spool the output {self._path.name}"):
            fd = self._open()
            try:
                write_whole(fd, data)
            finally:
                self._extent = replace(self._extent, length=os.fstat(fd).st_size)

    def _open(self) -> int:
        if self._fd is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._fd = os.open(self._path, flags, 0o600)
        return self._fd

    def _drop(self, size: int) -> None:
        first = size > 0 and not self._extent.dropped
        self._extent = replace(self._extent, dropped=self._extent.dropped + size)
        if first:
            self._mark()

    def _mark(self) -> None:
        draft = self._path.with_name(f"{self._path.name}.cut~")
        with translated(f"mark the output {self._path.name} as cut"):
            draft.write_text(f"{self._extent.dropped}\n")
            draft.rename(_mark_of(self._path))


def _mark_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.cut")


def look(path: Path) -> Extent:
    """How far the stream reaches by what is on the disk; whether it has ended only its writer knows."""
    with translated(f"look at the output {path.name}"):
        try:
            length = path.stat().st_size
        except FileNotFoundError:
            length = 0
        try:
            return Extent(length, int(_mark_of(path).read_text()))
        except FileNotFoundError:
            return Extent(length)


class SpoolReader:
    """Reads a stream by offset while it is written, or after. Keeps no file open between reads."""

    def __init__(self, path: Path, signal: Signal) -> None:
        self._path = path
        self._signal = signal

    @property
    def signal(self) -> Signal:
        return self._signal

    async def read(self, offset: int = 0, most: int = LARGEST) -> bytes:
        """The bytes there are now from `offset` on, at most so many; none where there are none yet."""
        if offset < 0 or most < 0:
            raise BadNumber("output is read from 0 on, 0 bytes or more", offset=offset, most=most)
        return await run_whole(self._read, offset, most)

    async def follow(self, offset: int = 0) -> AsyncGenerator[Piece, None]:
        """Everything from `offset` on, as it comes, until the stream has ended.

        Raises StoreBroken if the file does not hold what its writer told: then the output must be sought in the store.
        """
        while True:
            extent = self._signal.extent()
            if extent.length > offset:
                body = await self.take(offset, extent.length)
                yield Piece(offset, body)
                offset += len(body)
            elif extent.ended:
                return
            else:
                await self._signal.wait(extent)

    async def take(self, offset: int, end: int) -> bytes:
        """A piece of what was told to be there: one byte or more, up to `end`."""
        body = await self.read(offset, min(end - offset, LARGEST))
        if not body:
            raise StoreBroken(f"the output {self._path.name} ends before {offset}, though more was written")
        return body

    def _read(self, offset: int, most: int) -> bytes:
        with translated(f"read the output {self._path.name}"):
            try:
                with opened(self._path, os.O_RDONLY) as fd:
                    return read_whole(fd, most, offset)
            except FileNotFoundError:
                return b""


class Spool:
    """The folder of a node's output. It must exist; `cap` is the most that one stream may keep."""

    def __init__(self, folder: Path, cap: int) -> None:
        self._folder = folder
        self._cap = cap

    def write(self, key: SpoolKey, signal: Signal) -> SpoolWriter:
        return SpoolWriter(self._path(key), self._cap, signal)

    def read(self, key: SpoolKey, signal: Signal) -> SpoolReader:
        return SpoolReader(self._path(key), signal)

    def read_ended(self, key: SpoolKey) -> SpoolReader:
        """For a stream whose writer is gone: what is on the disk is all there will be."""
        bell = Bell()
        bell.tell(replace(look(self._path(key)), ended=True))
        return SpoolReader(self._path(key), bell)

    def has(self, key: SpoolKey) -> bool:
        """Is there anything of this stream?"""
        return self._path(key).exists()

    def measure(self, key: SpoolKey) -> int:
        """How many bytes of a stream lie here, by what is on the disk."""
        try:
            return self._path(key).stat().st_size
        except OSError:
            # Whoever goes on with it meets the error there, and can say more about it.
            return 0

    def list(self) -> Sequence[SpoolKey]:
        """The streams that are there, in no order: what a node that comes back has to settle or remove."""
        with translated("list the output"):
            found = [_FILE.fullmatch(name) for name in os.listdir(self._folder)]
        return [SpoolKey(TaskId(int(it[1])), Fence(int(it[2])), it[3]) for it in found if it]

    def remove(self, key: SpoolKey) -> None:
        """Forget a stream. Idempotent; who reads it at that moment is told that it is broken."""
        path = self._path(key)
        with translated(f"remove the output {path.name}"):
            path.unlink(missing_ok=True)
            _mark_of(path).unlink(missing_ok=True)

    def _path(self, key: SpoolKey) -> Path:
        return self._folder / f"{key.task}.{key.fence}.{key.stream}"
