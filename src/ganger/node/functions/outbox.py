"""Results that are ready and not yet sent, in memory that the node can read when the process is dead.

Sending each result by itself would cost more than most functions do. Kept in the process, a result would be lost when
the next function kills it, and its task would run twice. So results lie in memory that both sides have: they are sent
together, and what had not been sent is taken from here by the node.

The memory is the frame as it will be sent, behind one number that says how many bytes and how many results are in it:
one store, so no death leaves a half of it.
"""

import mmap
import os
import struct
import sys
import tempfile
from typing import Final

from ganger.node.functions.messages import ENCODER, LENGTH, RESULTS_DECODER, Done, Result

SIZE: Final = 1 << 20
_HEAD: Final = 8
_OPENING: Final = ENCODER.encode(Done([]))[:-1] + b"\xdd"
"""A `Done` up to its list, and the sign of a list whose length has four bytes."""

_COUNT: Final = struct.Struct(">I")
_FIRST: Final = _HEAD + LENGTH.size + len(_OPENING) + _COUNT.size
_BITS: Final = 32
_MASK: Final = (1 << _BITS) - 1


def make_memory() -> int:
    """A descriptor of memory for one outbox."""
    if sys.platform == "linux":
        fd = os.memfd_create("ganger-outbox", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    os.ftruncate(fd, SIZE)
    return fd


class Outbox:
    """One outbox, mapped. Close it at the end; the descriptor may be closed at once."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, SIZE)
        self._bytes = memoryview(self._memory)
        self._state = self._bytes[:_HEAD].cast("Q")
        self._used = _FIRST
        self.count = 0

    def close(self) -> None:
        self._state.release()
        self._bytes.release()
        self._memory.close()

    def add(self, encoded: bytes) -> bool:
        """Keep one encoded result; False if there is no room."""
        end = self._used + len(encoded)
        if end > SIZE:
            return False
        self._memory[self._used : end] = encoded
        self._used = end
        self.count += 1
        self._state[0] = end << _BITS | self.count
        return True

    def frame(self) -> memoryview:
        """All of it, to be sent; `clear` when that is done."""
        LENGTH.pack_into(self._memory, _HEAD, self._used - _HEAD - LENGTH.size)
        start = _HEAD + LENGTH.size
        self._memory[start : start + len(_OPENING)] = _OPENING
        _COUNT.pack_into(self._memory, start + len(_OPENING), self.count)
        return self._bytes[_HEAD : self._used]

    def clear(self) -> None:
        self._state[0] = 0
        self._used, self.count = _FIRST, 0

    def leftover(self) -> list[int | Result]:
        """What a process that died had not cleared: some of it may have been sent."""
        end, count = self._state[0] >> _BITS, self._state[0] & _MASK
        if not count:
            return []
        return RESULTS_DECODER.decode(b"\xdd" + _COUNT.pack(count) + bytes(self._bytes[_FIRST:end]))
