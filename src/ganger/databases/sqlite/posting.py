"""Handing in units that are safe at once and run soon: the letters of this process.

The first few units of a process are called for like any other: to make a bag costs more than a few answers. While this
process owns the file it has no bag at all, since there is no way to spare.

A letter that comes alone, some time after the last unit, is run at once by an owner that has nothing else to do, and
that takes longer if the disk has to sync the bag beside it. So its answer is waited for, for some milliseconds, and the
bag is written only if none came: then the next ones are not kept waiting.

A letter whose answer is that it could not be run now (the disk is full, the owner is gone) is sent again until it is
run: it was acknowledged. While there is such a letter, or no room for another, units are called for like any other, so
that the caller hears what is the matter.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

from msgspec import Raw

from ganger.core.clock import Moment
from ganger.core.errors import StoreClosed
from ganger.databases.sqlite.bag import Bag
from ganger.databases.sqlite.desk import Desk
from ganger.databases.sqlite.errors import PASSING
from ganger.databases.sqlite.unit import Blocked, Identity, Outcome, Post, Unit
from ganger.databases.sqlite.wire import Call, pack

_WARY: Final = 8
"""So many are written at once after one that waited in vain."""


class Letter(Blocked):
    """A unit that will be run. `wait` gives its reply when it was. `is_run`: it was run, or refused for good."""

    __slots__ = ("_posting", "is_run", "unit")

    def __init__(self, posting: "Posting") -> None:
        super().__init__()
        self._posting = posting
        self.unit: Unit | None = None
        self.is_run = False

    def tell(self, outcome: Outcome, post: Post) -> None:
        if self.unit is None or not self._posting.note(self.unit, outcome):
            self.is_run = not isinstance(outcome.error, StoreClosed)
            super().tell(outcome, post)


class Posting:
    """The letters of one handle, from any thread but that of an event loop."""

    def __init__(self, desk: Desk, owns: Callable[[], bool], call: Callable[[Unit], None]) -> None:
        self._desk = desk
        self._owns = owns
        self._call = call
        self._bag = Bag(desk.place, desk.client)
        self._lock = threading.Lock()
        self._books = threading.Lock()
        self._emptied = threading.Condition(self._books)
        """All letters were run."""
        self._free = list(range(desk.limits.slots, desk.limits.slots + desk.limits.letters))
        self._open = 0
        self._waiting: list[Unit] = []
        self._seq = 0
        self._asked = 0
        self._last = Moment(0)
        self._wary = 0
        self._is_closed = False

    def post(self, operation: str, request: Any) -> Letter:
        """Safe when this returns. What keeps it from being run at all is raised, or is its reply."""
        letter = Letter(self)
        if not self._put(letter, operation, request):
            self._call(Unit(operation, request, letter))
            if (lend := self._desk.inbox.lend) is not None:
                lend(letter, self._desk.limits.answer_ms)
            letter.wait(None)
            self._last = self._desk.clock.now()
        return letter

    def _put(self, letter: Letter, operation: str, request: Any) -> bool:
        """Into the bag and on its way, if it can go by letter."""
        with self._lock:
            self._asked += 1
            if self._asked <= self._desk.limits.letters_after or self._owns():
                return False
            body = self._desk.catalogue.encode(request)
            if len(body) > self._desk.limits.letter_bytes or (identity := self._take_identity(len(body))) is None:
                return False
            self._send(letter, operation, request, identity, body)
        return True

    def _send(self, letter: Letter, operation: str, request: Any, identity: Identity, body: bytes) -> None:
        """On its way first: while this thread waits for the disk, the owner may already have it, or have run it."""
        frame = pack(Call(identity.slot, identity.seq, False, operation, Raw(body), letter=True))
        unit = letter.unit = Unit(operation, request, letter, identity, letter=True, frame=frame)
        try:
            self._call(unit)
        except StoreClosed:
            self._drop(unit)
            raise
        if not self._was_run(letter):
            self._bag.put(identity.seq, frame)
            self._desk.probe("bag.put")
        self._last = self._desk.clock.now()

    def _was_run(self, letter: Letter) -> bool:
        """Wait for the answer to a letter that comes alone. Without one nothing is known, and the bag is written."""
        if self._wary:
            self._wary -= 1
            return False
        patience = self._desk.limits.letter_patience_ms
        if not patience or self._desk.clock.now() - self._last < patience:
            return False
        if (lend := self._desk.inbox.lend) is not None:
            lend(letter, patience)
        if not letter.is_run:
            self._wary = _WARY
        return letter.is_run

    def _take_identity(self, size: int) -> Identity | None:
        """For a letter of this size; None if there is no room for it now."""
        with self._books:
            if self._bag.is_full:
                self._emptied.wait_for(lambda: not self._open, self._desk.limits.flush_ms / 1000)
            if not self._open:
                self._bag.empty()
            if not self._free or self._waiting or self._is_closed or not self._bag.make_room(size):
                return None
            self._seq += 1
            self._open += 1
            return Identity(self._desk.client, self._free.pop(), self._seq)

    def _drop(self, unit: Unit) -> None:
        assert unit.identity is not None
        with self._books:
            self._open -= 1
            self._free.append(unit.identity.slot)
            if not self._open:
                self._emptied.notify_all()

    def note(self, unit: Unit, outcome: Outcome) -> bool:
        """On the serving thread: whether the letter has to be sent again."""
        if isinstance(outcome.error, PASSING) and not self._is_closed:
            with self._books:
                self._waiting.append(unit)
                if len(self._waiting) == 1:
                    self._send_later()
            return True
        if not isinstance(outcome.error, StoreClosed):
            self._drop(unit)
        return False

    def _send_later(self) -> None:
        timer = threading.Timer(self._desk.limits.retry_ms / 1000, self._send_again)
        timer.daemon = True
        timer.start()

    def _send_again(self) -> None:
        with self._books:
            waiting, self._waiting = self._waiting, []
        for unit in waiting:
            try:
                self._call(unit._replace(again=True))
            except StoreClosed as error:
                unit.waiter.tell(Outcome(error=error), Post())

    @property
    def is_idle(self) -> bool:
        return not self._open

    def settle(self, seconds: float) -> None:
        """Wait until every letter was run, or the time is up."""
        with self._books:
            self._emptied.wait_for(lambda: not self._open, seconds)

    def close(self) -> None:
        """Let the bag go. What is left in it is run by the owner."""
        with self._lock:
            self._is_closed = True
            self._bag.close(remove=not self._open)

    def abandon(self) -> None:
        """In a forked child: the bag is the parent's."""
        self._bag.close(remove=False)
