"""The kernel's word that something happened to a file: nobody has to look again and again while nothing does.

It comes when a file loses its name, gets another or is replaced, and, if that is asked for, when it is written. Linux
has it, as far as the user's share of it goes (`fs.inotify.max_user_instances`). Where there is none, whoever wants to
know looks by the clock.
"""

import ctypes
import os
from contextlib import suppress
from typing import Final

_MODIFIED: Final = 0x2
_ONCE: Final = 0x80000000
_CHANGED: Final = 0x4 | 0x400 | 0x800
"""Its attributes (to lose a name is one of them), deleted, moved."""


class Notice:
    """Readable when there is word. `descriptor` is -1 where there will be none."""

    __slots__ = ("_libc", "descriptor")

    def __init__(self) -> None:
        self.descriptor = -1
        with suppress(OSError, AttributeError):
            self._libc = ctypes.CDLL(None, use_errno=True)
            self.descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def watch(self, path: str, *, writes: bool = False, once: bool = False) -> None:
        """Be told of this file from now on, or only of what happens next. If that cannot be, nothing is told of any."""
        if self.descriptor < 0:
            return
        mask = _CHANGED | (_MODIFIED if writes else 0) | (_ONCE if once else 0)
        if self._libc.inotify_add_watch(self.descriptor, os.fsencode(path), ctypes.c_uint32(mask)) < 0:
            self.close()

    def hear(self) -> None:
        """Take in what was told."""
        with suppress(BlockingIOError):
            while os.read(self.descriptor, 65_536):
                pass

    def close(self) -> None:
        """Idempotent."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
