"""The log's runway: its file is made longer ahead of time, so that a commit does not have to.

A sync of a file that has grown must also write where the file now ends, on some file systems through a journal of
their own: such a commit costs twice as much as one into space that is already there. After a checkpoint the log begins
anew in the same file, so only its first round grows; but that is all that a short-lived process ever sees.

What lies ahead are zeros, which SQLite cannot take for anything that was written: no frame of a log has the page number
zero, or a checksum that fits it. If they are lost, or could not be written, nothing is. They are synced while nobody
waits, or else the next commit would have to bring them to the disk. A failure of that sync is not told here: all that
was answered is on the disk by then, and the system tells it to the next commit too, which syncs by a file of its own.
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

    def is_short(self, pages: int) -> bool:
        """Is there little space left behind so many pages?"""
        return self._length < self._need(pages) <= self._longest

    def lay(self, pages: int, *, syncs: bool) -> None:
        """Make room behind so many pages."""
        with suppress(OSError):
            log = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                end = os.fstat(log).st_size
                self._length = max(end, self._need(pages) + _STRETCH)
                os.pwrite(log, bytes(self._length - end), end)
                if syncs:
                    os.fdatasync(log)
            finally:
                os.close(log)

    def _need(self, pages: int) -> int:
        return _HEAD + (pages + _CLOSE) * self._frame
