"""Power loss, derived from a recording of what a program asked of its disk.

A machine that loses power keeps what was synced. What was not synced is anybody's guess: the kernel writes back in any
order, a drive tears a write between two sectors, the length of a file and its bytes travel apart, and the name of a
file lives in its folder, which needs a sync of its own. Cutting the power of a running test shows one such guess per
run. So the run is recorded once, and thousands of disks are derived from the record: every prefix of it, with the dice
thrown for everything that was still open at that step.

The rules of the derived disk are POSIX's, which are harsher than those of any one filesystem:

- A sync of a file settles the writes and truncations of that file that had ended before the sync began.
- Every other write is kept, dropped or torn at sector boundaries; every other truncation is kept or dropped. They fall
  in the order in which they were made. A hole reads as zeros, and a file may be longer than its bytes.
- A file that was created or removed since the last sync of its folder is there or not there, whichever the dice say.
  A synced file without a synced folder can therefore vanish whole, and a removed one come back.

Not modelled: sectors that go bad, drives that lie about a sync, and writes through a memory map.
"""

import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import assert_never

SECTOR = 512
_FATES = ("dropped", "kept", "torn")
_ODDS = ((1, 0, 0), (0, 1, 0), (1, 1, 1), (1, 20, 1))


@dataclass(frozen=True, slots=True)
class Found:
    """A file that was there, whole and durable, before the recording began."""

    file: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Created:
    file: str


@dataclass(frozen=True, slots=True)
class Removed:
    file: str


@dataclass(frozen=True, slots=True)
class Wrote:
    file: str
    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class Truncated:
    file: str
    size: int


@dataclass(frozen=True, slots=True)
class Synced:
    """A sync that returned; it covers the steps before `since`, where it began."""

    file: str
    since: int


@dataclass(frozen=True, slots=True)
class FolderSynced:
    """A sync of a folder that returned; it covers every name in it."""

    folder: str


@dataclass(frozen=True, slots=True)
class Marked:
    """What the test knew at this step, such as a commit that was acknowledged."""

    value: object


Change = Wrote | Truncated
Step = Found | Created | Removed | Wrote | Truncated | Synced | FolderSynced | Marked


class PowerLog:
    """What was asked of the files below one folder, step by step; crash states are derived from it.

    Recording is safe from several threads. Deriving is for one thread at a time; it is cheap when `at` grows from one
    call to the next, and starts over when it falls.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._steps: list[Step] = []
        self._known: set[str] = set()
        self._lock = threading.Lock()
        self._disk = _Disk()

    def __len__(self) -> int:
        """The number of steps so far: a crash can be placed at 0 up to this."""
        return len(self._steps)

    def record(self, step: Step) -> None:
        self._steps.append(step)

    def meet(self, file: str, *, existed: bool) -> None:
        """Note that a file was opened: it is created if it was not there, and durable if it was there unrecorded."""
        with self._lock:
            known = file in self._known
            self._known.add(file)
        if not existed:
            self.record(Created(file))
        elif not known:
            self.record(Found(file, (self.folder / file).read_bytes()))

    def mark(self, value: object) -> None:
        """Note something that `crash` shall tell when it falls after this step."""
        self.record(Marked(value))

    def name(self, path: Path) -> str | None:
        """How the log names a file, or None if the file is not below its folder."""
        try:
            return path.resolve().relative_to(self.folder).as_posix()
        except ValueError:
            return None

    def crash(self, *, at: int, rng: random.Random, into: Path) -> list[object]:
        """Write a disk as power loss before step `at` could leave it into an empty folder; the marks made by then."""
        if not 0 <= at <= len(self):
            raise ValueError(f"a crash falls at 0 to {len(self)}, not at {at}")
        disk = self._replay(at)
        for name, content in disk.cut(rng):
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_bytes(content)
        return list(disk.marks)

    def _replay(self, at: int) -> "_Disk":
        if at < self._disk.steps:
            self._disk = _Disk()
        for index in range(self._disk.steps, at):
            self._disk.apply(index, self._steps[index])
        return self._disk


@dataclass(slots=True)
class _File:
    stable: bytearray = field(default_factory=bytearray)
    open: list[tuple[int, Change]] = field(default_factory=list)

    def settle(self, since: int) -> None:
        for index, change in self.open:
            if index < since:
                _apply(self.stable, change)
        self.open = [(index, change) for index, change in self.open if index >= since]

    def cut(self, rng: random.Random) -> bytes:
        content = bytearray(self.stable)
        whole = bytearray(self.stable) if self.open else content
        # How much gets out before the lights go varies by orders of magnitude: nothing, all, or a mixture.
        odds = rng.choice(_ODDS)
        for _, change in self.open:
            _apply(whole, change)
            for piece in _survive(change, rng, odds):
                _apply(content, piece)
        if len(content) < len(whole) and rng.random() < 0.25:
            content.extend(bytes(len(whole) - len(content)))
        return bytes(content)


class _Disk:
    """The files of a log after some of its steps: the names in use, and the names that are synced."""

    def __init__(self) -> None:
        self.steps = 0
        self.marks: list[object] = []
        self._names: dict[str, _File] = {}
        self._synced: dict[str, _File] = {}

    def apply(self, index: int, step: Step) -> None:
        match step:
            case Found(file, content):
                self._names[file] = self._synced[file] = _File(bytearray(content))
            case Created(file):
                self._names[file] = _File()
            case Removed(file):
                self._names.pop(file, None)
            case Wrote(file) | Truncated(file):
                self._file(file).open.append((index, step))
            case Synced(file, since):
                self._file(file).settle(since)
            case FolderSynced(folder):
                self._sync_names(folder)
            case Marked(value):
                self.marks.append(value)
            case _:
                assert_never(step)
        self.steps = index + 1

    def cut(self, rng: random.Random) -> Iterator[tuple[str, bytes]]:
        for name in sorted(self._names.keys() | self._synced.keys()):
            file = rng.choice((self._names.get(name), self._synced.get(name)))
            if file is not None:
                yield name, file.cut(rng)

    def _file(self, name: str) -> _File:
        # A file that was removed under an open handle takes changes still, but no folder will ever show them.
        return self._names.get(name) or _File()

    def _sync_names(self, folder: str) -> None:
        elsewhere = {name: file for name, file in self._synced.items() if _folder_of(name) != folder}
        here = {name: file for name, file in self._names.items() if _folder_of(name) == folder}
        self._synced = elsewhere | here


def _folder_of(name: str) -> str:
    return PurePosixPath(name).parent.as_posix()


def _apply(content: bytearray, change: Change) -> None:
    if isinstance(change, Truncated):
        size, end = change.size, len(content)
        content[size:] = bytes(max(0, size - end))
    else:
        gap = change.offset - len(content)
        content.extend(bytes(max(0, gap)))
        content[change.offset : change.offset + len(change.content)] = change.content


def _survive(change: Change, rng: random.Random, odds: tuple[int, int, int]) -> Iterator[Change]:
    fate = rng.choices(_FATES, odds)[0]
    if fate == "kept":
        yield change
    elif fate == "torn" and isinstance(change, Wrote):
        yield from (sector for sector in _sectors(change) if rng.random() < 0.5)


def _sectors(write: Wrote) -> Iterator[Wrote]:
    start = write.offset
    end = start + len(write.content)
    while start < end:
        stop = min(end, (start // SECTOR + 1) * SECTOR)
        yield Wrote(write.file, start, write.content[start - write.offset : stop - write.offset])
        start = stop
