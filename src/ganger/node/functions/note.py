"""What a warm process is executing at this instant, and until when it may: a page of memory that survives its death.

The process writes what it begins, before it begins it, and wipes that out when the result is safe. Nobody is asked and
nothing is synced: two stores into a mapped file. When the process dies, whoever looks next sees whom to blame, and
nobody else: the node that started it, or, when that died too, the next node of the same name, because the page is a
file in the node's folder. The node writes into the same page until when its leases can be trusted; the process looks
there before it begins anything, and the one that watches it looks there to know when to end it.

The page is numbers of 64 bits: version, trust, cause, status, number of slots, the word (the last job of those that the
process was told to hold: now it may run them) and whether the process sleeps and must be woken to see the word, and
from the eighth on four for each slot: the node's number of the job (0: nothing is executed), task, fence, and when it
began.
"""

import mmap
import os
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from ganger.core.clock import Moment
from ganger.core.ids import Fence, TaskId

VERSION: Final = 1
_TRUST: Final = 1
_CAUSE: Final = 2
_STATUS: Final = 3
_SLOTS: Final = 4
_SAID: Final = 5
_DOZES: Final = 6
_FIRST: Final = 8
_WIDTH: Final = 4
_WORD: Final = 8


class Cause(IntEnum):
    """Why a process ended: by itself, at the end of trust, or because the node wanted it or died."""

    ITSELF = 0
    TRUST = 1
    NODE = 2


class Executing(NamedTuple):
    seq: int
    task: TaskId
    fence: Fence
    began: Moment


class Note:
    """One page, mapped. Close it at the end."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._words = memoryview(memory).cast("Q")

    @classmethod
    def make(cls, path: Path, slots: int) -> "Note":
        """A fresh page in a file of its own."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.ftruncate(fd, (_FIRST + _WIDTH * slots) * _WORD)
            note = cls(mmap.mmap(fd, 0))
        finally:
            os.close(fd)
        note._words[0], note._words[_SLOTS] = VERSION, slots
        return note

    @classmethod
    def open(cls, path: Path) -> "Note":
        """A page that somebody else made. ValueError: it is not one."""
        with path.open("r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
        if len(memory) % _WORD or len(memory) < _FIRST * _WORD:
            raise ValueError(f"{path} is no note")
        note = cls(memory)
        if note._words[0] != VERSION or len(note._words) < _FIRST + _WIDTH * note.slots:
            note.close()
            raise ValueError(f"{path} is no note of this version")
        return note

    def close(self) -> None:
        self._words.release()
        self._memory.close()

    @property
    def slots(self) -> int:
        return self._words[_SLOTS]

    @property
    def trust(self) -> int:
        return self._words[_TRUST]

    @trust.setter
    def trust(self, until: int) -> None:
        self._words[_TRUST] = until

    @property
    def word(self) -> int:
        return self._words[_SAID]

    @word.setter
    def word(self, seq: int) -> None:
        self._words[_SAID] = seq

    @property
    def dozes(self) -> bool:
        return bool(self._words[_DOZES])

    @dozes.setter
    def dozes(self, is_so: bool) -> None:
        self._words[_DOZES] = is_so

    @property
    def cause(self) -> Cause:
        return Cause(self._words[_CAUSE])

    @property
    def exit_status(self) -> int:
        """As `waitpid` tells it."""
        return self._words[_STATUS]

    def bury(self, cause: Cause, exit_status: int) -> None:
        """How the process ended, told by the one that watched it."""
        self._words[_STATUS] = exit_status
        self._words[_CAUSE] = cause

    @property
    def is_buried(self) -> bool:
        """Is the process known to be dead, and everything below it? One that ended in order never says so."""
        return bool(self._words[_STATUS] or self._words[_CAUSE])

    def begin(self, slot: int, seq: int, task: int, fence: int, now: int) -> None:
        words, at = self._words, _FIRST + _WIDTH * slot
        words[at + 1], words[at + 2], words[at + 3] = task, fence, now
        words[at] = seq

    def end(self, slot: int) -> None:
        self._words[_FIRST + _WIDTH * slot] = 0

    def executing(self) -> list[Executing]:
        """What had begun and not ended."""
        words = self._words
        starts = range(_FIRST, _FIRST + _WIDTH * self.slots, _WIDTH)
        return [
            Executing(words[at], TaskId(words[at + 1]), Fence(words[at + 2]), Moment(words[at + 3]))
            for at in starts
            if words[at]
        ]


def read_last(folder: Path) -> frozenset[tuple[TaskId, Fence]] | None:
    """What the processes of a dead node were executing, by their notes; None if one of them may still live."""
    last: set[tuple[TaskId, Fence]] = set()
    for path in folder.glob("*.note"):
        try:
            note = Note.open(path)
        except (ValueError, FileNotFoundError):
            # One that is no page had executed nothing; one that is gone was ended in order, or read by an heir.
            continue
        is_buried, executing = note.is_buried, note.executing()
        note.close()
        if not is_buried:
            return None
        last |= {(one.task, one.fence) for one in executing}
    return frozenset(last)
