"""Who began and how they ended: written down before anybody is told, and safe before the kernel may forget it.

An end is written to the journal as soon as it is known, and told; from then on the death of the guardian does not lose
it. The process is reaped, and the kernel forgets its exit code, when the journal is synced or when the node says that
it has the end safe in its store, whichever comes first. A node that is there answers within milliseconds; so a busy
guardian hardly ever syncs, and one whose node is gone always does. A sync waits for the disk in a thread of its own,
because pipes and clocks do not wait.
"""

import os
import threading
from collections.abc import Iterable, Sequence
from queue import SimpleQueue
from typing import Final

from ganger.node.guardian.attempt import NEVER, Attempt
from ganger.node.guardian.journal import Begun, Forgotten, Journal, Past
from ganger.node.guardian.messages import End, Key
from ganger.node.guardian.obituary import note_death, reap

SYNC_AFTER: Final = 50
"""So many ms the node has to acknowledge an end before it is synced."""


class Syncer:
    """One sync at a time, beside the loop; `done` is readable when it has come back."""

    def __init__(self) -> None:
        self.done = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._asked: SimpleQueue[int] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._error: OSError | None = None

    def begin(self, fd: int) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sync", daemon=True)
            self._thread.start()
        self._asked.put(fd)

    def finish(self) -> None:
        """Called when `done` is readable. OSError: the sync failed, and what it was for may never reach the disk."""
        os.eventfd_read(self.done)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while True:
            fd = self._asked.get()
            try:
                os.fdatasync(fd)
            except OSError as error:
                self._error = error
            os.eventfd_write(self.done, 1)


class Books:
    """`mains` are the attempts' own processes that are not reaped, dead or alive."""

    def __init__(self, journal: Journal, past: Past) -> None:
        self.ended: dict[Key, End] = dict(past.ended)
        self.mains: dict[int, Attempt] = {}
        self._journal = journal
        self._syncer = Syncer()
        self._unsafe: dict[Key, tuple[int, Attempt]] = {}
        self._syncing: list[Attempt] = []

    @property
    def sync_done(self) -> int:
        """A descriptor to watch, for `take_sync`."""
        return self._syncer.done

    @property
    def due(self) -> int:
        """When the oldest end that nobody has acknowledged must be synced."""
        return NEVER if self._syncing else next((at for at, _ in self._unsafe.values()), NEVER)

    def begin(self, attempt: Attempt) -> None:
        self.mains[attempt.pid] = attempt
        self._journal.note(Begun(*attempt.key, attempt.serial))

    def bury(self, dead: Sequence[Attempt], now: int) -> None:
        """Write down how their own processes ended. Nothing is told before that."""
        for attempt in dead:
            note_death(attempt)
            self._unsafe[attempt.key] = now + SYNC_AFTER, attempt
            self._journal.note(attempt.end({}, {}))

    def close(self, end: End) -> None:
        self.ended[end.key] = end

    def close_unbegun(self, end: End) -> None:
        self._journal.note(end)
        self.close(end)

    def forget(self, keys: Iterable[Key]) -> None:
        known = [key for key in keys if self.ended.pop(key, None) is not None]
        if known:
            self._journal.note(Forgotten(known))
        self._reap([self._unsafe.pop(key)[1] for key in known if key in self._unsafe])

    def commit(self, running: Iterable[Attempt]) -> None:
        """Write what was noted. OSError: it could not be."""
        self._journal.commit()
        if self._journal.is_large and not self._syncing:
            self._renew(list(running))

    def mend(self, running: Iterable[Attempt]) -> bool:
        """Write all that counts anew, after a commit that failed; False: the disk is still at work on the old file.

        OSError: it could not be.
        """
        if self._syncing:
            return False
        self._renew(list(running))
        return True

    def _renew(self, running: Sequence[Attempt]) -> None:
        """An attempt that is not over may have ended as far as its own process goes: that end counts as well."""
        begun = [Begun(*it.key, it.serial) for it in running if not it.ended]
        self._journal.renew(begun, [*self.ended.values(), *(it.end({}, {}) for it in running if it.ended)])

    def sync(self, now: int) -> None:
        if self.due <= now:
            self._syncing = [attempt for _, attempt in self._unsafe.values()]
            self._unsafe.clear()
            self._syncer.begin(self._journal.fileno())

    def take_sync(self) -> None:
        """The sync came back: what it was for can be reaped, also if it failed. OSError then says so."""
        synced, self._syncing = self._syncing, []
        self._reap(synced)
        self._syncer.finish()

    def _reap(self, dead: Sequence[Attempt]) -> None:
        for attempt in dead:
            reap(attempt)
            del self.mains[attempt.pid]
