"""Whether anything was committed that a process may not have been told of: it asks the kernel, not the owner.

An owner wakes the processes that listen, over its connection to each. A fault there, in whichever version of this
program owns the file, would leave them waiting beside a ready task. So a process that does not own the file has the
kernel watch the log as well: the first write after a look is noted, and a moment later everybody in the process looks
for himself, whatever the owner said. The watch ends with its first word and begins anew before they look, so a busy
owner stirs nobody more often than that, and an idle one nobody at all.

Where the kernel gives no word it is looked whether the log has been written since. Its time stamp is as coarse as the
system's ticks, so one that was written just now counts as written again.
"""

import os
from typing import Final

from ganger.core.clock import Clock, Moment
from ganger.databases.sqlite.notice import Notice

EVERY_MS: Final = 750
_COARSE_NS: Final = 100_000_000


class Lookout:
    """Used on the thread of a link alone. `due` is when to look whether everybody should."""

    __slots__ = ("_clock", "_log", "_stamp", "due", "notice")

    def __init__(self, log: str, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._stamp: tuple[int, int] | None = None
        self.notice = Notice()
        self.due: Moment | None = None

    def begin(self) -> None:
        """Have the next write noted."""
        self.notice.watch(self._log, writes=True, once=True)
        self.due = None if self.notice.descriptor >= 0 else self._later()

    def hear(self) -> None:
        """The kernel has word."""
        self.notice.hear()
        self.due = self.due or self._later()

    def should_look(self) -> bool:
        """Is it time, and was anything written? The next write is noted from before this returns."""
        if self.due is None or self._clock.now() < self.due:
            return False
        has_word = self.notice.descriptor >= 0
        self.begin()
        return has_word or self._is_written()

    def _later(self) -> Moment:
        return Moment(self._clock.now() + EVERY_MS)

    def _is_written(self) -> bool:
        before, self._stamp = self._stamp, _read_stamp(self._log)
        return self._stamp != before or self._clock.wall() * 1_000_000 - self._stamp[0] < _COARSE_NS

    def close(self) -> None:
        self.notice.close()


def _read_stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_ino
