"""SQLite's log, read as SQLite reads it after a crash, and beyond the place where that stops.

The log is a head and frames, each a page with a short head of its own. The checksum of a frame goes over its page and
over all frames before it, and each bears the salt of the log's head. After a crash SQLite takes what is whole from the
beginning up to the last commit, and writes over the rest. So a bit that flips in the middle takes every commit behind
it along, and nobody hears of it.

What lies behind the last frame that is whole says what happened:

- Frames of another salt, or zeros: the log ends here. That is how it mostly is.
- A frame of this log's salt that is not whole, and nothing or the rest of one commit behind it: a process died, or the
  power was cut, while it was written, and nobody was told that it is safe. That is no damage. But if a single bit would
  make it whole, it was whole.
- A frame that is not whole, and behind it more than one commit: the first of them was synced before the second was
  begun, so it was whole. A frame that is whole but for its salt was whole. A head that does not fit its checksum, too.

The checksum is made of two sums: x(n) = a(n) + x(n-1) + x(n-2) for the words a of what is summed, of which the last two
x are kept. So each word counts as often as a Fibonacci number says, and a flipped bit is found by the difference.
"""

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import mul
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from ganger.databases.sqlite.checksums import find_layer

_HEAD: Final = struct.Struct(">8I")
_FRAME: Final = struct.Struct(">6I")
_LITTLE: Final = 0x377F0682
_BIG: Final = 0x377F0683
_PIECES: Final = 256
_MASK: Final = 0xFFFFFFFF
_SUMMED: Final = 8
"""So many bytes of a frame's head are in its checksum."""

Sums = tuple[int, int]


class Log(NamedTuple):
    """What was found. `damage` says what is wrong, None if nothing is; `unfinished`: it ends in half a commit."""

    frames: int
    damage: str | None = None
    unfinished: bool = False
    end: int = 0
    """Where the last frame that is whole ends."""


class _Frame(NamedTuple):
    number: int
    page: int
    commits: int
    salt: Sums
    sums: Sums
    summed: bytes


def read_log(path: Path) -> Log:
    """Judge the log at this path; one that is not there, or empty, is well."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD.size)
            if len(head) < _HEAD.size or not any(head):
                return Log(0)
            return _judge(head, file.read)
    except FileNotFoundError:
        return Log(0)


def _judge(head: bytes, read: Callable[[int], bytes]) -> Log:
    magic, _, size, _, *rest = _HEAD.unpack(head)
    salt, sums = (rest[0], rest[1]), (rest[2], rest[3])
    if magic not in (_LITTLE, _BIG) or size < 512 or size & (size - 1):
        return Log(0, "its head is damaged")
    order = "<" if magic == _LITTLE else ">"
    if _sum(head[:24], (0, 0), order) != sums:
        return Log(0, "its head is damaged")
    checker = _Checker(size, order)
    last = 0
    frames = _split(read, size)
    for frame in frames:
        is_whole = checker.fits(frame, sums)
        if is_whole and frame.salt == salt:
            sums, last = frame.sums, frame.number
        elif is_whole:
            return Log(last, f"frame {frame.number} is damaged", end=_end_of(last, size))
        else:
            judged = _judge_rest(last, salt, frame, frames, checker.is_bit_away(frame, sums, salt))
            return judged._replace(end=_end_of(last, size))
    return Log(last, end=_end_of(last, size))


def _end_of(frame: int, size: int) -> int:
    return _HEAD.size + frame * (_FRAME.size + size)


def _judge_rest(last: int, salt: Sums, bad: _Frame, frames: Iterator[_Frame], flipped: bool) -> Log:
    """The first frame that is not whole, and those behind it."""
    commits, follow = int(bad.salt == salt and bad.commits > 0), 0
    beyond = False
    for frame in frames:
        if frame.salt == salt:
            follow += 1
            beyond = beyond or commits > 0
            commits += frame.commits > 0
    if flipped or beyond:
        return Log(last, f"frame {bad.number} is damaged, and {follow} frames behind it are lost with it")
    return Log(last, unfinished=bad.salt == salt or follow > 0)


def _split(read: Callable[[int], bytes], size: int) -> Iterator[_Frame]:
    number, whole = 0, _FRAME.size + size
    while piece := read(whole * _PIECES):
        for start in range(0, len(piece) - whole + 1, whole):
            page, commits, *rest = _FRAME.unpack_from(piece, start)
            number += 1
            summed = piece[start : start + _SUMMED] + piece[start + _FRAME.size : start + whole]
            yield _Frame(number, page, commits, (rest[0], rest[1]), (rest[2], rest[3]), summed)


class _Checker:
    """Checks frames of one page size."""

    def __init__(self, size: int, order: str) -> None:
        self._order = order
        self._words = (size + _SUMMED) // 4
        self._padding = bytes(2 * size - size - _SUMMED - 8)
        self._first, self._second = _weigh(self._words - 1), _weigh(self._words)
        # The layer that checks pages has the same sums, in C. Zeros before what is summed change nothing.
        has_layer = order == "<" and size <= 32768 and find_layer() is not None
        self._database = apsw.Connection(":memory:") if has_layer else None

    def fits(self, frame: _Frame, start: Sums) -> bool:
        if self._database is None:
            return _sum(frame.summed, start, self._order) == frame.sums
        alone = struct.pack("<2I", *self._take_away(frame.sums, start))
        content = self._padding + frame.summed + alone
        return bool(self._database.execute("SELECT verify_checksum(?)", (content,)).get)

    def _take_away(self, sums: Sums, start: Sums) -> Sums:
        """What the sums would be if they had begun with zeros."""
        first, second, third = (self._weight(self._words - back) for back in (2, 1, 0))
        one = sums[0] - first * start[0] - second * start[1]
        two = sums[1] - second * start[0] - third * start[1]
        return one & _MASK, two & _MASK

    def _weight(self, place: int) -> int:
        return self._second[-1 - place] if place < self._words else self._second[0] + self._second[1]

    def is_bit_away(self, frame: _Frame, start: Sums, salt: Sums) -> bool:
        """Would one other bit make the frame whole?"""
        if frame.salt != salt:
            return False
        found = _sum(frame.summed, start, self._order)
        off = ((found[0] - frame.sums[0]) & _MASK, (found[1] - frame.sums[1]) & _MASK)
        if (found[0] ^ frame.sums[0]).bit_count() + (found[1] ^ frame.sums[1]).bit_count() == 1:
            return True
        # The last word but one is in the first sum once; the first sum has no part of the last word.
        pairs = set(zip([*self._first, 0], self._second, strict=True))
        return any(
            ((sign * one << bit) & _MASK, (sign * two << bit) & _MASK) == off
            for one, two in pairs
            for bit in range(32)
            for sign in (1, -1)
        )


@lru_cache
def _weigh(words: int) -> tuple[int, ...]:
    """How often each of so many words counts in the last x."""
    weights = [1, 1]
    while len(weights) < words:
        weights.append((weights[-1] + weights[-2]) & _MASK)
    return tuple(weights[:words][::-1])


def _sum(content: bytes, start: Sums, order: str) -> Sums:
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    last, before = _weigh(len(words) + 2), _weigh(len(words) + 1)
    # It begins with two x, not words: the older one is in the first new x once, as the first word is.
    one = before[2] * start[0] + before[1] * start[1] + sum(map(mul, before[2:], words))
    two = last[2] * start[0] + last[1] * start[1] + sum(map(mul, last[2:], words))
    return one & _MASK, two & _MASK
