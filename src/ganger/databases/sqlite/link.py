"""The way to an owner in another process: units out, answers and wake-ups in.

A unit keeps its slot and number until it is answered. When the connection ends, nothing is known about the units
without an answer; the next owner is sent all of them again, marked as sent before, and answers from its receipts
those that were done. A unit so old that its receipt may be gone is not sent again: its outcome is unknown.

A unit that comes while little is on its way is sent by the thread that posts it, which spares it one change of threads;
a lock keeps the two apart. When much is on its way, units are collected and sent together. A thread that has nothing to
do but wait for its answer may borrow the socket and take in by itself whatever comes, until its own answer is there:
that spares the other change of threads. Meanwhile the serving thread does not read.

An owner that is stopped looks like one that is slow. After half a minute without an answer the caller is told that the
outcome is unknown, and who owns the file.
"""

import contextlib
import select
import selectors
import socket
import threading
from collections.abc import Sequence
from typing import Final

import msgspec

from ganger.core.clock import Moment
from ganger.core.errors import GangerError, StoreError, StoreUnavailable
from ganger.databases.sqlite.desk import Desk
from ganger.databases.sqlite.lookout import Lookout
from ganger.databases.sqlite.outstanding import Outstanding, Sent
from ganger.databases.sqlite.seat import Seat, receive_seat
from ganger.databases.sqlite.stream import Gone, Stream
from ganger.databases.sqlite.unit import Blocked, Outcome, Post, Unit
from ganger.databases.sqlite.wire import (
    Bye,
    Call,
    Failure,
    Frame,
    Handover,
    Listen,
    Malformed,
    Reply,
    Unlisten,
    Wake,
    body_of_call,
    error_of,
)

_FEW: Final = 4


class Link:
    """Serves this process over one connection until it ends. Lives on one thread."""

    def __init__(
        self, desk: Desk, stream: Stream, outstanding: Outstanding, owner: int, frames: Sequence[Frame]
    ) -> None:
        self._desk = desk
        self._frames = frames
        self._stream = stream
        self._outstanding = outstanding
        self._owner = owner
        self._selector = selectors.DefaultSelector()
        self._post = Post()
        self._lookout = Lookout(str(desk.place.log), desk.clock)
        self._topics: frozenset[str] = frozenset()
        self._version = -1
        self._seat: Seat | None = None
        self._blocked = False
        self._lock = threading.Lock()
        self._is_open = False
        self._has_deadline = False
        self._was_quiet = True
        self._is_lent = False
        self._lent = select.poll()
        self._lent.register(stream.sock, select.POLLIN)

    def serve(self) -> Seat | None:
        """Until the owner is gone (None), hands over its seat (the seat), or this process closes the file (None)."""
        self._selector.register(self._desk.inbox.ear, selectors.EVENT_READ)
        self._selector.register(self._stream.sock, selectors.EVENT_READ)
        self._lookout.begin()
        if self._lookout.notice.descriptor >= 0:
            self._selector.register(self._lookout.notice.descriptor, selectors.EVENT_READ, self._lookout.hear)
        try:
            self._open()
            while self._is_open:
                self._turn()
        except (Gone, Malformed):
            return self._seat
        finally:
            self.close()
        return self._seat

    def _open(self) -> None:
        with self._lock:
            self._send_again()
            for frame in self._frames:
                self._heed(frame)
            self._is_open = True
        self._desk.inbox.express = self._send_at_once
        self._desk.inbox.lend = self._lend

    def _lend(self, blocked: Blocked, most: int) -> None:
        """On a thread that waits: take in what comes until its answer is there, or something needs this link's own.

        It comes back without an answer when so many milliseconds have passed without a word.
        """
        with self._lock:
            if self._is_lent or not self._is_open or self._seat is not None or blocked.told:
                return
            self._is_lent = True
            self._selector.unregister(self._stream.sock)
        try:
            while not self._needs_own(blocked) and self._lent.poll(most):
                with self._lock:
                    self._hear()
        except (Gone, Malformed):
            return  # the serving thread sees it too, and deals with it
        finally:
            self._take_back()

    def _needs_own(self, blocked: Blocked) -> bool:
        return blocked.told or self._seat is not None

    def _take_back(self) -> None:
        with self._lock:
            self._is_lent = False
            if not self._is_open:
                return
            self._selector.register(self._stream.sock, self._wanted())
            rings = self._seat is not None or len(self._outstanding) or len(self._desk.inbox)
        if rings:
            self._desk.inbox.ring()

    def _send_at_once(self, unit: Unit) -> bool:
        """On the thread that posts: send the unit if the way is free."""
        with self._lock:
            if not self._is_free(unit):
                return False
            self._announce()
            self._send(unit)
            try:
                whole = self._stream.flush()
            except Gone:
                # The serving thread notices the end of a connection by itself, and sends the unit again.
                whole = False
            self._desk.probe("link.sent")
            if not unit.letter:
                # Its request may have been unfit, which is told. A letter was packed before.
                self._post.deliver()
            heard = (self._has_deadline or unit.letter) and whole
        if not heard:
            self._desk.inbox.ring()
        return True

    def _is_free(self, unit: Unit) -> bool:
        if not self._is_open or self._stream.unsent:
            return False
        return unit.letter or (len(self._outstanding) < _FEW and bool(self._outstanding.room))

    def _is_over(self) -> bool:
        inbox = self._desk.inbox
        return inbox.closed and not len(inbox) and not len(self._outstanding)

    def _say_bye(self) -> None:
        if self._seat is None:
            self._stream.add(Bye())
            self._stream.flush()

    def _send_again(self) -> None:
        oldest = Moment(self._desk.clock.now() - self._desk.limits.resend_ms)
        self._abandon(self._outstanding.give_up(oldest))
        for sent in self._outstanding.in_order():
            self._stream.add(_call_again(sent))
        self._announce()
        self._stream.flush()
        self._desk.probe("link.resent")

    def _turn(self) -> None:
        with self._lock:
            self._send_new()
            self._announce()
            self._flush()
            self._end_if_over()
            if not self._is_open:
                return
            sleeps = self._may_sleep() and self._desk.inbox.doze()
            patience = self._patience() if sleeps else 0
            self._has_deadline = patience is not None
        events = self._selector.select(patience)
        with self._lock:
            self._desk.inbox.rouse()
            self._take_in(events)

    def _take_in(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        for key, mask in events:
            if key.data is not None:
                key.data()
            elif key.fileobj is self._stream.sock and mask & selectors.EVENT_READ and not self._is_lent:
                self._hear()
        if self._lookout.should_look():
            self._desk.listeners.tell(self._desk.listeners.topics())
        self._was_quiet = not events
        if not events:
            self._give_up()

    def _end_if_over(self) -> None:
        if self._seat is not None or self._is_over():
            self._say_bye()
            self._is_open = False

    def _may_sleep(self) -> bool:
        return not len(self._desk.inbox) or not self._outstanding.room

    def _send_new(self) -> None:
        units = self._desk.inbox.take(self._outstanding.room)
        for unit in units:
            self._send(unit)
        if units:
            self._post.deliver()

    def _send(self, unit: Unit) -> None:
        if unit.identity is not None:
            sent = self._outstanding.add_letter(unit, unit.identity, self._desk.clock.now())
            if unit.again:
                self._stream.add(_call_again(sent))
            else:
                self._stream.add_packed(unit.frame)
            return
        try:
            self._desk.catalogue.find(unit.operation)
            body = self._desk.catalogue.encode(unit.request)
        except GangerError as error:
            unit.waiter.tell(Outcome(error=error), self._post)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            unfit = StoreError(f"the request does not fit {unit.operation!r}: {error}", name=unit.operation)
            unit.waiter.tell(Outcome(error=unfit), self._post)
        else:
            sent = self._outstanding.add(unit, body, self._desk.clock.now())
            self._stream.add(Call(sent.slot, sent.seq, False, unit.operation, msgspec.Raw(body)))

    def _announce(self) -> None:
        """Tell the owner which topics somebody here listens to now."""
        if self._version == self._desk.listeners.version:
            return
        self._version = self._desk.listeners.version
        wanted = self._desk.listeners.topics()
        if added := wanted - self._topics:
            self._stream.add(Listen(sorted(added)))
        if removed := self._topics - wanted:
            self._stream.add(Unlisten(sorted(removed)))
        self._topics = wanted

    def _flush(self) -> None:
        if self._stream.unsent:
            blocked = not self._stream.flush()
            if blocked != self._blocked:
                self._blocked = blocked
                self._watch()
            self._desk.probe("link.sent")

    def _watch(self) -> None:
        if not self._is_lent:
            self._selector.modify(self._stream.sock, self._wanted())

    def _wanted(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._blocked else 0)

    def _patience(self) -> float | None:
        answer, due = self._answer_patience(), self._lookout.due
        look = None if due is None else max(0, due - self._desk.clock.now() + 1) / 1000
        return min((seconds for seconds in (answer, look) if seconds is not None), default=None)

    def _answer_patience(self) -> float | None:
        oldest = self._outstanding.oldest()
        if oldest is None:
            # Whoever posts next need not wake this thread to have its unit's deadline kept.
            return None if self._was_quiet else self._desk.limits.answer_ms / 1000
        return max(0, oldest + self._desk.limits.answer_ms - self._desk.clock.now() + 1) / 1000

    def _give_up(self) -> None:
        overdue = Moment(self._desk.clock.now() - self._desk.limits.answer_ms)
        self._abandon(self._outstanding.give_up(overdue))

    def _abandon(self, units: list[Unit]) -> None:
        for unit in units:
            unit.waiter.tell(Outcome(error=self._unanswered()), self._post)
        self._post.deliver()

    def _unanswered(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"process {self._owner} owns {self._desk.place.database} and does not answer: is it stopped? "
            "The unit may or may not be done",
            pid=self._owner,
        )

    def _hear(self) -> None:
        for frame in self._stream.receive_with_descriptors():
            self._heed(frame)
        self._post.deliver()

    def _heed(self, frame: Frame) -> None:
        match frame:
            case Reply(slot, seq, body):
                self._answer(slot, seq, body)
            case Failure(slot, seq):
                self._tell(slot, seq, Outcome(error=error_of(frame)))
            case Wake(topics):
                self._desk.listeners.tell(topics)
            case Handover():
                self._take_seat()
            case _:
                raise Malformed(f"{type(frame).__name__} is not for a client to hear")

    def _answer(self, slot: int, seq: int, body: msgspec.Raw) -> None:
        unit = self._outstanding.settle(slot, seq)
        if unit is None:
            return
        try:
            outcome = Outcome(self._desk.catalogue.find(unit.operation).replies.decode(body))
        except msgspec.MsgspecError as error:
            outcome = Outcome(error=StoreError(f"{unit.operation!r} was done, but its reply does not fit: {error}"))
        unit.waiter.tell(outcome, self._post)

    def _tell(self, slot: int, seq: int, outcome: Outcome) -> None:
        unit = self._outstanding.settle(slot, seq)
        if unit is not None:
            unit.waiter.tell(outcome, self._post)

    def _take_seat(self) -> None:
        if len(self._stream.descriptors) != 2:
            raise Malformed("a seat comes with two descriptors")
        self._seat = receive_seat(self._desk.place, self._stream.descriptors)
        self._desk.probe("handover.received")

    def abandon(self) -> None:
        """In a forked child: close the copies of what belongs to the parent."""
        self._selector.close()
        self._lookout.close()
        self._stream.close()

    def close(self) -> None:
        self._desk.inbox.express = self._desk.inbox.lend = None
        with self._lock:
            self._is_open = False
            if self._is_lent:
                # Closing alone would not wake the one who waits on it.
                with contextlib.suppress(OSError):
                    self._stream.sock.shutdown(socket.SHUT_RDWR)
        self._selector.close()
        self._lookout.close()
        self._stream.close()


def _call_again(sent: Sent) -> Call:
    unit = sent.unit
    body = body_of_call(unit.frame) if unit.letter else msgspec.Raw(sent.body)
    return Call(sent.slot, sent.seq, True, unit.operation, body, letter=unit.letter)
