"""Space kept for what programs say when the disk is full: a file of some megabytes that is given up then.

While there is space, some of it is held in a file. When a write fails for lack of space the file is removed, and each
stream may go on for `LAST` bytes, whether it has met the full disk itself or not: so a flood takes no more of it than a
program that says one line. It is held again as soon as there is room for it.
"""

import os
from contextlib import suppress
from typing import Final

SIZE: Final = 1 << 22
LAST: Final = 1 << 16
"""So many bytes of a stream are kept from when the disk is full: what the store takes with the end of an attempt."""


class Spare:
    """The file that holds it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_held = False
        self.is_given_up = False

    def hold(self) -> None:
        """Hold it, if that is possible now."""
        if self._is_held:
            return
        try:
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.posix_fallocate(fd, 0, SIZE)
            finally:
                os.close(fd)
        except OSError:
            self._remove()
        else:
            self._is_held, self.is_given_up = True, False

    def release(self) -> None:
        """Give it up: somebody needs the space."""
        self._is_held, self.is_given_up = False, True
        self._remove()

    def _remove(self) -> None:
        with suppress(OSError):
            os.unlink(self._path)
