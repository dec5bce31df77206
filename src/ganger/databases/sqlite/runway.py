"""The log's runway: its file is made longer ahead of time, so that a commit does not have to.

A sync of a file that has grown must also write where the file now ends, on some file systems through a journal of
their own: such a commit costs twice as much as one into space that is already there. After a checkpoint the log begins
anew in the same file, so only its first round grows; but that is all that a short-lived process ever sees.

What lies ahead are zeros, which SQLite cannot take for anything that was written: no frame of a log has the page number
zero, or a checksum that fits it. Nobody syncs them; if they are lost, or could not be written, nothing is.
"""

import os
from contextlib import suppress
from typing import Final

from ganger.databases.sqlite.place import Place

_FRAME: Final = 24
_HEAD: Final = 32
_STRETCH: Final = 1 << 18
_CLOSE: Final = 16
"""With so few pages left the next stretch is laid."""


class Runway:
    """Keeps the file of the log longer than the log. Used on the owner's thread alone."""

    __slots__ = ("_frame", "_length", "_longest", "_path")

    def __init__(self, place: Place, page: int, most_pages: int) -> None:
        self._path = f"{place.database}-wal"
        self._frame = _FRAME + page
        self._longest = _HEAD + most_pages * self._frame
        self._length = 0

    def reset(self) -> None:
        """The file may have been made anew, or cut."""
        self._length = 0

    def reach(self, pages: int) -> None:
        """The log has so many pages now."""
        needed = _HEAD + (pages + _CLOSE) * self._frame
        if self._length < needed <= self._longest:
            with suppress(OSError):
                self._lay(needed)

    def _lay(self, needed: int) -> None:
        log = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            end = os.fstat(log).st_size
            self._length = max(end, needed + _STRETCH)
            os.pwrite(log, bytes(self._length - end), end)
        finally:
            os.close(log)
