"""Pipes that run ahead of the disk, and rest until it has what they brought.

What can go wrong, and why this is right. A flood of output goes to the system's cache, and from there to the disk some
seconds later, all at once. Whoever syncs a few bytes at that time waits behind it, and the store syncs with each
commit: so one task that writes a gigabyte would hold up every other. Therefore no stream gets further ahead of the disk
than `AHEAD`: its pipe is not drawn from until a sync has come back. The program is held up by the disk, as it would be
if it wrote a file that large itself; one that says less than `AHEAD` never waits for anything.

The syncs run in one thread, because other pipes and the clocks do not wait, and after each the thread rests for as long
as it took: all floods together have the disk for half of the time, however slow it is. The descriptors are copies: an
attempt may end, and its own be closed and given to somebody else, while the disk is still at work.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Final, NamedTuple

from ganger.core.clock import Clock

AHEAD: Final = 1 << 20

Again = Callable[[OSError | None], None]
"""Called when the disk has it, with the error if it will not."""


class _Rest(NamedTuple):
    fds: Sequence[int]
    again: Again


class Floods:
    """`done` is readable when a rest is over; `wake` then tells those whose it is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._never = threading.Event()
        self.done = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._asked: SimpleQueue[_Rest] = SimpleQueue()
        self._over: deque[tuple[Again, OSError | None]] = deque()
        self._thread: threading.Thread | None = None

    def rest(self, fds: Sequence[int], again: Again) -> None:
        """Have these files written out. OSError: there are too many open files for a rest, and none is needed."""
        copies = _copy(fds)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="floods", daemon=True)
            self._thread.start()
        self._asked.put(_Rest(copies, again))

    def wake(self) -> None:
        os.eventfd_read(self.done)
        while self._over:
            again, error = self._over.popleft()
            again(error)

    def _run(self) -> None:
        while True:
            rest = self._asked.get()
            began = self._clock.now()
            error = _write_out(rest.fds)
            self._never.wait((self._clock.now() - began) / 1_000)
            self._over.append((rest.again, error))
            os.eventfd_write(self.done, 1)


def _copy(fds: Sequence[int]) -> list[int]:
    copies: list[int] = []
    try:
        copies.extend(os.dup(fd) for fd in fds)
    except OSError:
        for copy in copies:
            os.close(copy)
        raise
    return copies


def _write_out(fds: Sequence[int]) -> OSError | None:
    failed = None
    for fd in fds:
        try:
            os.fdatasync(fd)
        except OSError as error:
            failed = error
        finally:
            os.close(fd)
    return failed
