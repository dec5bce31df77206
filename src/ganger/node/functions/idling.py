"""How the one who executes alone in a process waits for work.

It listens to the node by itself while it has nothing to do, beside the porter: two who listen to one descriptor, of
whom the first is woken if it listens, and else the second. And it may be told to *hold* jobs until the word comes that
they are its own, which takes as long as a commit: it looks for that word in memory, again and again, for some
milliseconds, because to sleep and be woken takes longer than all else that it does.
"""

import os
import select
from collections.abc import Callable
from typing import Final

from ganger.core.clock import Clock
from ganger.node.functions.note import Note

TAKES_TURNS: Final = hasattr(select, "EPOLLEXCLUSIVE")
"""Can the system wake one of several who listen? Without that both would be, for each word."""

_PATIENCE: Final = 2
"""Milliseconds. A commit that takes longer is not made much longer by a wake-up."""

_LOOK: Final = 50
"""Milliseconds: so long the word may be overlooked, should the processor have shown it late."""

_READ: Final = 1 << 10


class Ear:
    """Hears a descriptor that others may listen to, and one of its own. Who begins to listen first is woken first."""

    def __init__(self, shared: int, own: int) -> None:
        self._epoll = select.epoll()
        self._epoll.register(shared, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        self._epoll.register(own, select.EPOLLIN)

    def poll(self, milliseconds: int | None) -> list[tuple[int, int]]:
        return self._epoll.poll(None if milliseconds is None else milliseconds / 1000)


class Idler:
    """The first of the two: somebody who listens only while it has nothing to do."""

    def __init__(self, shared: int, note: Note, clock: Clock) -> None:
        self._bell, self._rope = os.pipe()
        self._ear = Ear(shared, self._bell)
        self._note = note
        self._clock = clock
        self._waits = False
        self._waited_for = 0

    def hears_word(self, seq: int) -> bool:
        """Look for the word, for some time if it is the first look. False: whoever says it will wake us."""
        note, now = self._note, self._clock.now
        until = now() + _PATIENCE if seq != self._waited_for else 0
        self._waited_for = seq
        while note.word != seq:
            if now() > until:
                note.dozes = True
                return note.word == seq
            # Whoever has something to do on this processor goes first: it may be the one who says the word.
            os.sched_yield()
        return True

    def wait(self, is_idle: Callable[[], bool], *, is_held: bool) -> bool:
        """Wait until somebody wakes it, or there is something to read (True): the other may be quicker to read it."""
        # Whoever finds something to do for it after this look sees that it waits.
        self._waits = True
        heard = self._ear.poll(_LOOK if is_held else None) if is_idle() else []
        self._waits = self._note.dozes = False
        for descriptor, _ in heard:
            if descriptor == self._bell:
                os.read(self._bell, _READ)
        return any(descriptor != self._bell for descriptor, _ in heard)

    def wake(self) -> None:
        """On any thread: it has something to do."""
        if self._waits:
            self._waits = False
            os.write(self._rope, b"\0")
