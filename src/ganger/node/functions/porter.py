"""Carries words between the node and the threads that execute functions, in one process.

What can go wrong, and why this is right:

- *A result waits for the next function.* Results go together when that costs little, because each sending wakes the
  node and takes the interpreter there from the thread of the store: whoever adds one sends all if some milliseconds
  have passed, if there are many, or if there is nothing left to do. If a long function begins in between, the porter's
  own thread sends what lies there as many milliseconds later.
- *A wake-up is lost.* The porter says that it sleeps and then looks once more; whoever adds something looks whether
  it sleeps afterwards. One of the two sees the other.
- *A job is dropped and begun at once.* Jobs are in one queue; whoever takes one out has it, and nobody else.
"""

import os
import select
import socket
import threading
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Final, NamedTuple

from ganger.core.clock import Clock
from ganger.node.functions.context import Context
from ganger.node.functions.messages import (
    CHILD_DECODER,
    ENCODER,
    Begin,
    Done,
    Drop,
    Follow,
    How,
    Job,
    Quit,
    Result,
    Said,
    Splitter,
    Stop,
    ToChild,
    Trim,
    frame,
)
from ganger.node.functions.outbox import Outbox
from ganger.node.functions.track import Capture, Track
from ganger.node.spool import SpoolKey

MANY: Final = 512
_SOON: Final = 3
"""Milliseconds."""

_READ: Final = 1 << 18


class Line(NamedTuple):
    """Two sockets, each used in one direction.

    With one for both, a node that writes to a process that has just died would get an error before it had read all that
    the process had said.
    """

    jobs: socket.socket
    results: socket.socket


class Porter:
    """Jobs come out of `jobs`; None means that there will be no more, one for each who takes."""

    def __init__(self, line: Line, outbox: Outbox, clock: Clock, takers: int, capture: Capture) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        self.unwanted: set[int] = set()
        self._capture = capture
        self._opening = threading.Lock()
        self._followed: set[int] = set()
        self._writing: dict[int, Context] = {}
        self._line = line
        self._outbox = outbox
        self._clock = clock
        self._takers = takers
        self._lock = threading.Lock()
        self._sayings: dict[int, tuple[float | None, str | None]] = {}
        self._sent = 0
        self._asleep = False
        self._bell, self._rope = os.pipe()

    def start(self) -> None:
        threading.Thread(target=self._carry, name="porter", daemon=True).start()

    def give(self, encoded: bytes) -> None:
        """A result; from now on the node gets it, whatever becomes of this process."""
        with self._lock:
            if not self._outbox.add(encoded):
                self._send_all()
                if not self._outbox.add(encoded):
                    self._send_alone(encoded)
            if self._outbox.count >= MANY or self._clock.now() >= self._sent + _SOON:
                self._send_all()
        if self._asleep:
            self._wake()

    def send(self) -> None:
        """What lies there goes now."""
        with self._lock:
            self._send_all()

    def send_message(self, message: Done | Said) -> None:
        with self._lock:
            self._line.results.sendall(frame(message))

    def open(self, context: Context, stream: str) -> Track:
        """A pen for a stream. Whoever begins to follow at this moment finds the track, or is found here."""
        with self._opening:
            known = context.tracks.get(stream)
            if isinstance(known, Track):
                return known
            track = Track(self._capture.place, SpoolKey(context.task, context.fence, stream), context.masks)
            context.tracks[stream] = track
        self._writing[context.seq] = context
        if context.seq in self._followed:
            track.follow()
        return track

    def forget(self, seq: int) -> None:
        """It has ended, and its result is safe."""
        self.unwanted.discard(seq)
        self._followed.discard(seq)
        self._writing.pop(seq, None)

    def say(self, seq: int, percent: float | None, info: str | None) -> None:
        self._sayings[seq] = percent, info
        if self._asleep:
            self._wake()

    def is_unwanted(self, seq: int) -> bool:
        return seq in self.unwanted

    def _send_all(self) -> None:
        if self._outbox.count:
            self._line.results.sendall(self._outbox.frame())
            self._outbox.clear()
        self._sent = self._clock.now()

    def _send_alone(self, encoded: bytes) -> None:
        # The encoded list of one result is its sign and the result.
        opening = ENCODER.encode(Done([]))[:-1] + b"\x91"
        self._line.results.sendall((len(opening) + len(encoded)).to_bytes(4, "big") + opening + encoded)

    def _wake(self) -> None:
        self._asleep = False
        os.write(self._rope, b"\0")

    def _carry(self) -> None:
        try:
            self._carry_until_the_end()
        finally:
            # Nobody hears the results any more, and nobody would ever stop the functions.
            os._exit(1)

    def _carry_until_the_end(self) -> None:
        poll = select.poll()
        poll.register(self._line.jobs, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        splitter = Splitter()
        while True:
            for fd, _ in poll.poll(self._nap()):
                self._asleep = False
                if fd == self._bell:
                    os.read(self._bell, _READ)
                elif not self._read(splitter):
                    return
            self._send_sayings()
            if self._outbox.count:
                self.send()

    def _nap(self) -> int | None:
        self._asleep = True
        if self._outbox.count or self._sayings:
            self._asleep = False
            return _SOON
        return None

    def _read(self, splitter: Splitter) -> bool:
        data = self._line.jobs.recv(_READ)
        for body in splitter.feed(data):
            self._obey(CHILD_DECODER.decode(body))
        return bool(data)

    def _send_sayings(self) -> None:
        if self._sayings:
            sayings, self._sayings = self._sayings, {}
            self.send_message(Said([(seq, *said) for seq, said in sayings.items()]))

    def _obey(self, message: ToChild) -> None:
        match message:
            case Begin(jobs=jobs):
                self._queue(jobs)
            case Stop(seq=seq):
                self._stop(seq)
            case Drop():
                self._give_back([job for job in self._take_all() if job is not None])
            case Quit():
                self._queue([None] * self._takers)
            case Follow(seq=seq):
                self._follow(seq)
            case Trim():
                self._capture.trim()

    def _follow(self, seq: int) -> None:
        self._followed.add(seq)
        writing = self._writing.get(seq)
        for track in list(writing.tracks.values()) if writing is not None else ():
            if isinstance(track, Track):
                track.follow()

    def _queue(self, jobs: Iterable[Job | None]) -> None:
        put = self.jobs.put
        for job in jobs:
            put(job)

    def _take_all(self) -> list[Job | None]:
        taken: list[Job | None] = []
        try:
            while True:
                taken.append(self.jobs.get_nowait())
        except Empty:
            return taken

    def _stop(self, seq: int) -> None:
        waiting = self._take_all()
        dropped = [job for job in waiting if job is not None and job.seq == seq]
        self._queue(job for job in waiting if job not in dropped)
        if dropped:
            self._give_back(dropped)
        else:
            self.unwanted.add(seq)
            self.stop_running(seq)

    def stop_running(self, seq: int) -> None:
        """The job with this number, which has begun, is not wanted any more."""

    def _give_back(self, jobs: Iterable[Job]) -> None:
        self.send_message(Done([Result(job.seq, How.DROPPED) for job in jobs]))
