"""The owner at work: one thread, one selector, no polling.

A turn takes everything that waits at that moment, from this process and from all others, has it written as one group,
answers, and wakes. While nothing waits the thread sleeps in the selector, without a timeout; the kernel
wakes it if something happens to its files (`watching`): if they are no longer its own it lets go of them and begins
anew. Letters, for which nobody
waits, may wait for each other: while they come in a stream a group of letters alone is written two milliseconds after
the last one at the earliest, and their replies go together.

The owner leaves when its process closes the file, or when a process of a higher rank (or of a newer version, which has
to migrate) connects. It stops listening to anybody, finishes and answers what it has, and closes the database. The one
who asked gets the seat from hand to hand. Otherwise the seat is left free, and the quickest of the others takes it:
one of them may be stopped, and must not be given what it cannot serve. Whatever was sent and not read by then stays
unanswered; the senders see the connection end and send it again to the next owner.
"""

import contextlib
import selectors
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from ganger.core.clock import Moment
from ganger.core.errors import GangerError, StoreBroken
from ganger.databases.sqlite.admitting import tell_replaced
from ganger.databases.sqlite.collecting import Collector
from ganger.databases.sqlite.desk import Desk
from ganger.databases.sqlite.file import OwnedFile
from ganger.databases.sqlite.peers import Peer, Peers
from ganger.databases.sqlite.reception import Reception
from ganger.databases.sqlite.scribe import Group, Scribe
from ganger.databases.sqlite.seat import Seat
from ganger.databases.sqlite.unit import Outcome, Post, Unit
from ganger.databases.sqlite.watching import EVERY_MS, Displaced, Watch
from ganger.databases.sqlite.wire import Handover, pack

_STROLL: Final = 2
"""Milliseconds between two groups of letters alone."""
_SEVERAL: Final = 2
_ENOUGH: Final = 64


class Owner:
    """Serves the file until it has to leave. Lives on one thread. `leaves`: another may own the file from now on."""

    def __init__(self, desk: Desk, seat: Seat, file: OwnedFile, scribe: Scribe, watch: Watch) -> None:
        self.leaves = False
        self._desk = desk
        self._seat = seat
        self._file = file
        self._scribe = scribe
        self._watch = watch
        self._looked = Moment(0)
        self._selector = selectors.DefaultSelector()
        self._queue: deque[Unit] = deque()
        self._post = Post()
        self._written = Moment(0)
        self._letters = 0
        self._collector = Collector(desk, file)
        self._peers = Peers(self._selector, desk.clock, desk.limits, self._collector.look_for)
        self._reception = Reception(desk, seat, self._peers, self._selector, self._queue)

    def serve(self, units: Iterable[Unit], begun: Callable[[], None]) -> None:
        """Do these units and every letter that is left first, then whatever comes, until it is time to leave.

        Then the seat is passed on. All units that were taken are answered. Those still in the inbox are for the next
        owner. `begun` is called when everything that was handed in before is done.
        """
        self._queue.extend(units)
        self._selector.register(self._desk.inbox.ear, selectors.EVENT_READ, lambda mask: None)
        if self._watch.notice.descriptor >= 0:
            self._selector.register(self._watch.notice.descriptor, selectors.EVENT_READ, self._hear_of_files)
        try:
            self._queue.extend(self._collector.collect_all())
            while self._queue:
                self._turn()
            begun()
            self._reception.open()
            self._desk.probe("owner.serving")
            while not self._is_over():
                self._gather()
                self._look_around()
                self._turn()
            self.leaves = True
            self._leave()
        except Displaced as displaced:
            self.leaves = True
            self._step_down(displaced)
        finally:
            self._fail_queue()
            self.close()

    def _hear_of_files(self, mask: int) -> None:
        self._watch.notice.hear()
        self._looked = Moment(0)

    def _look_around(self) -> None:
        """See whether the files are still those that this process owns: after word of them, or twice a second."""
        if (now := self._desk.clock.now()) - self._looked >= EVERY_MS:
            self._looked = now
            self._watch.check()

    def _step_down(self, displaced: Displaced) -> None:
        """Let go. What was not run goes on to the next owner, whoever sent it."""
        self._desk.telemetry.event("owner_displaced", path=str(self._desk.place.database), why=str(displaced))
        if displaced.saves:
            self._file.checkpoint()
        if displaced.suspect:
            self._file.poison()
        self._desk.inbox.give_back(unit for unit in self._queue if unit.identity is None)
        units = [unit for unit in self._queue if unit.identity is not None and unit.identity[0] == self._desk.client]
        self._queue.clear()
        for unit in units:
            unit.waiter.tell(Outcome(error=tell_replaced(self._desk.place.database)), self._post)
        self._post.deliver()

    def _fail_queue(self) -> None:
        """Nobody waits for ever, should this thread have met an error that nobody thought of."""
        for unit in self._queue:
            error = StoreBroken("the owner of the file failed: the unit may or may not be done")
            unit.waiter.tell(Outcome(error=error), self._post)
        self._queue.clear()
        self._post.deliver()

    def _is_over(self) -> bool:
        inbox = self._desk.inbox
        return self._reception.heir is not None or (inbox.closed and not self._queue and not len(inbox))

    def _gather(self) -> None:
        """Sleep until something is there, and take in what waits; but first what an earlier group left."""
        if self._queue:
            return
        events = self._listen(None)
        while (left := self._stroll()) > 0 and events:
            events = self._listen(left)
        if not events:
            self._peers.cut_stalled()
            self._reception.look_up()
        self._queue.extend(self._collector.collect_due())

    def _listen(self, most: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        """Take in what is there; if there is nothing, sleep until something comes, or for so many seconds."""
        sleeps = self._desk.inbox.doze()
        events = self._selector.select(0) if not sleeps or self._peers.has_later else []
        if sleeps and not events:
            self._peers.rest()
            events = self._selector.select(self._patience() if most is None else most)
        self._desk.inbox.rouse()
        for key, mask in events:
            key.data(mask)
        self._queue.extend(self._desk.inbox.take(self._desk.limits.local_units))
        return events

    def _stroll(self) -> float:
        """How long the next group may wait for more: letters do, if the last group had several, and nothing else."""
        left = self._written + _STROLL - self._desk.clock.now()
        comes_more = self._letters >= _SEVERAL and 0 < len(self._queue) < _ENOUGH
        return left / 1000 if left > 0 and comes_more and all(unit.letter for unit in self._queue) else 0

    def _patience(self) -> float | None:
        watched = (self._peers, self._reception, self._collector)
        deadlines = [due for each in watched if (due := each.next_deadline()) is not None]
        if self._watch.notice.descriptor < 0:
            deadlines.append(Moment(self._looked + EVERY_MS))
        return max(0, min(deadlines) - self._desk.clock.now() + 1) / 1000 if deadlines else None

    def _turn(self) -> None:
        if self._queue:
            self._write()
            if self._file.log_is_short:
                self._file.lengthen_log(is_idle=self._is_idle())
            if self._file.checkpoint_due(waiting=True) or self._may_checkpoint():
                self._file.checkpoint()
        self._peers.flush()

    def _may_checkpoint(self) -> bool:
        return self._file.checkpoint_due(waiting=False) and self._is_idle()

    def _is_idle(self) -> bool:
        """Does nobody wait for a commit?"""
        return not self._queue and not len(self._desk.inbox) and not self._selector.select(0)

    def _write(self) -> None:
        self._watch.check()
        units = [self._collector.recognise(unit) if unit.letter else unit for unit in self._queue]
        group = self._scribe.write(units)
        self._queue.clear()
        self._queue.extend(group.left)
        self._written = self._desk.clock.now()
        self._letters = sum(unit.letter for unit in units)
        self._answer(group)

    def _answer(self, group: Group) -> None:
        for unit, outcome in group.answers:
            unit.waiter.tell(outcome, self._post)
        self._peers.flush()
        self._post.deliver()
        self._desk.probe("scribe.replied")
        if group.topics:
            self._desk.listeners.tell(group.topics)
            self._peers.wake(group.topics)
            self._peers.flush()
            self._desk.probe("scribe.woken")

    def _leave(self) -> None:
        while self._queue:
            self._write()
        self._flush_all()
        heir = self._reception.heir
        with contextlib.suppress(GangerError):
            # A log that could not be written back is read by the next owner: nothing is lost.
            self._file.close(last=not self._peers.greeted())
        self._desk.probe("handover.finished")
        if heir is None:
            self._seat.leave()
        else:
            self._pass_on(heir)
        self._desk.probe("handover.released")

    def _flush_all(self) -> None:
        """Let the peers read their last answers, for a moment."""
        until = Moment(self._desk.clock.now() + self._desk.limits.flush_ms)
        self._peers.flush()
        while self._peers.unsent and (left := until - self._desk.clock.now()) > 0:
            events = self._selector.select(left / 1000)
            for key, mask in events:
                if mask & selectors.EVENT_WRITE:
                    key.data(selectors.EVENT_WRITE)

    def _pass_on(self, heir: Peer) -> None:
        # If the heir is gone by now, closing the lock lets the others race for it.
        with contextlib.suppress(OSError):
            if not heir.stream.unsent:
                self._seat.pass_on(heir.stream.sock, pack(Handover()))

    def close(self) -> None:
        """Let everything go. The file first: without the seat nobody may have it open for writing."""
        self._file.close(last=False)
        self._peers.close()
        self._selector.close()
        self._watch.notice.close()
        self._seat.close()

    def abandon(self) -> None:
        """In a forked child: close the copies of what belongs to the parent, without a word to anybody."""
        self._peers.abandon()
        self._selector.close()
        self._watch.notice.close()
        self._file.abandon()
        self._seat.close()
