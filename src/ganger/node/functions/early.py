"""Jobs that a warm process is given by another thread than that of the loop, before the loop knows of them.

The thread of the store knows first that a task is ours. To wait until the loop has heard of it, and the process of the
loop, costs more than everything else between the commit and the function. So that thread writes to the process by
itself: before the commit what is to be held, so that the process is awake and has read it, and after it the word.

What can go wrong, and why this is right:

- *Two threads write.* Under a lock, and the other thread only what fits at once and while the loop has nothing unsent.
  Should the system take a part of it all the same, the loop sends the rest, before anything else.
- *The commit fails.* What is held is forgotten: it was never ours, and the process has done nothing with it.
- *The word is not seen.* The process says that it sleeps and then looks once more; whoever gives the word looks
  afterwards whether it sleeps, and sends it a message.
- *The process answers before the loop knows of the job.* What it says is held back until then.
- *It dies before that.* Its end waits too: the word of the job is on its way to the loop, behind the job itself.
- *It is about to quit.* The door is shut before that is said: jobs are in front of the last word, or not there at all.
  What it held and did not run goes to another process, as with one that died.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from ganger.node.functions.idling import TAKES_TURNS
from ganger.node.functions.messages import Forget, FromChild, Go, Hold, Job, ToChild, frame
from ganger.node.functions.note import Note

_MOST: Final = 1 << 14
"""Bytes. An empty socket takes several times as many at once."""


class Early:
    """The way past the loop to one process. `seqs` are the jobs that went there and of which the loop does not know."""

    def __init__(self, note: Note) -> None:
        self.seqs: set[int] = set()
        self._note = note
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._transport: asyncio.WriteTransport
        self._is_open = False
        self._last = 0
        self._rest = b""
        self._said: list[FromChild] = []
        self._known = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def open(self, sock: socket.socket, transport: asyncio.WriteTransport) -> None:
        """`transport` is the loop's own way to write to the same socket."""
        self._sock, self._transport = sock, transport
        # With one processor, who waits for the word would keep the store from its commit.
        self._is_open = TAKES_TURNS and len(os.sched_getaffinity(0)) > 1

    def prepare(self, jobs: list[Job]) -> bool:
        """On any thread: have the process hold these, if nothing is in the way."""
        words = frame(Hold(jobs))
        with self._lock:
            if not self._is_open or self.seqs or len(words) > _MOST or self._transport.get_write_buffer_size():
                return False
            # Before the process can answer.
            self.seqs.update(job.seq for job in jobs)
            self._last = jobs[-1].seq
            if not self._send(words):
                self.seqs.clear()
                return False
        return True

    def _send(self, words: bytes) -> bool:
        assert self._sock is not None
        try:
            self._rest = words[self._sock.send(words) :]
        except OSError:
            return False
        return True

    def begin(self) -> None:
        """On the thread that prepared: give the word."""
        with self._lock:
            self._note.word = self._last
        os.sched_yield()
        if self._note.dozes:
            self._say(Go())

    def forget(self) -> None:
        """On the thread that prepared: it was nothing. What was said meanwhile is heard with what is said next."""
        self._say(Forget())
        self.seqs.clear()
        with suppress(RuntimeError):
            # A loop that is closed waits for nothing.
            self._loop.call_soon_threadsafe(self._known.set)

    def _say(self, message: ToChild) -> None:
        words = frame(message)
        with self._lock:
            if self._rest or self._transport.get_write_buffer_size() or not self._send(words):
                # Sent by the loop, before its own next words.
                self._rest += words

    def write(self, words: bytes) -> None:
        """On the loop."""
        with self._lock:
            self._transport.write(self._rest + words)
            self._rest = b""

    def sift(self, said: FromChild) -> list[FromChild]:
        """On the loop: what may be heard now. It has to wait if it may be about a job that the loop does not know."""
        self._said.append(said)
        return self._let_go()

    def _let_go(self) -> list[FromChild]:
        if self.seqs:
            return []
        said, self._said = self._said, []
        return said

    def adopt(self, seqs: Iterable[int]) -> list[FromChild]:
        """On the loop, which knows of these now. What was held back, if nothing is unknown any more."""
        self.seqs.difference_update(seqs)
        if self._rest:
            self.write(b"")
        if not self.seqs:
            self._known.set()
        return self._let_go()

    def close(self) -> None:
        """Begin nothing more."""
        with self._lock:
            self._is_open = False

    async def end(self) -> None:
        """The process is dead: wait until the loop knows of all that went there."""
        self.close()
        while self.seqs:
            self._known.clear()
            await self._known.wait()
