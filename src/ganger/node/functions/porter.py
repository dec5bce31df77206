"""Carries words between the node and the threads that execute functions, in one process.

What can go wrong, and why this is right:

- *A result waits for the next function.* Results go together when that costs little, because each sending wakes the
  node and takes the interpreter there from the thread of the store: whoever adds one sends all if some milliseconds
  have passed, if there are many, or if there is nothing left to do. If a long function begins in between, the porter's
  own thread sends what lies there as many milliseconds later.
- *A wake-up is lost.* The porter says that it sleeps and then looks once more; whoever adds something looks whether
  it sleeps afterwards. One of the two sees the other.
- *A job is dropped and begun at once.* Jobs are in one queue; whoever takes one out has it, and nobody else.
- *A job waits for a change of threads.* Who executes alone listens to the node by itself while it has nothing to do:
  the system wakes one of the two who listen, and the porter only if the other does not. Should the porter get a job
  while the other is about to listen, it rings for it, by the same rule as above.
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
from ganger.node.functions.idling import TAKES_TURNS, Ear, Idler
from ganger.node.functions.messages import (
    CHILD_DECODER,
    ENCODER,
    Begin,
    Done,
    Drop,
    Follow,
    Forget,
    Go,
    Hold,
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
from ganger.node.functions.note import Note
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
        self._reading = threading.Lock()
        self._splitter = Splitter()
        self._idler: Idler | None = None
        self._held: list[Job] = []

    def listen_alone(self, note: Note) -> None:
        """Somebody takes jobs alone, by `take_alone`. Said before `start`: who listens first is woken first."""
        if TAKES_TURNS:
            self._idler = Idler(self._line.jobs.fileno(), note, self._clock)

    def take_alone(self) -> Job | None:
        """The next job, for the only one who takes."""
        if self._idler is None:
            return self.jobs.get()
        while True:
            try:
                return self.jobs.get_nowait()
            except Empty:
                if (job := self._idle(self._idler)) is not None:
                    return job

    def _idle(self, idler: Idler) -> Job | None:
        """Listen to the node; what was held until now is begun without a way round."""
        held = self._held
        if held and idler.hears_word(held[-1].seq):
            with self._reading:
                begun = self._take_held()
                self._queue(begun[1:])
            return begun[0] if begun else None
        if idler.wait(lambda: self.jobs.empty() and self._held is held, is_held=bool(held)) and not self._read():
            raise ConnectionError("the node is gone")
        return None

    def start(self) -> None:
        threading.Thread(target=self._carry, name="porter", daemon=True).start()

    def give(self, encoded: bytes) -> None:
        """A result; from now on the node gets it, whatever becomes of this process."""
        with self._lock:
            if not self._outbox.add(encoded):
                self._send_all()
                if not self._outbox.add(encoded):
                    self._send_alone(encoded)
            if self._outbox.count >= MANY or self._is_time:
                self._send_all()
        if self._asleep:
            self._wake()

    @property
    def _is_time(self) -> bool:
        return self._clock.now() >= self._sent + _SOON

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
        listening = self._listen()
        while True:
            for fd, _ in listening.poll(self._nap()):
                self._asleep = False
                if fd == self._bell:
                    os.read(self._bell, _READ)
                elif not self._read():
                    return
            self._send_sayings()
            if self._outbox.count and self._is_time:
                self.send()

    def _listen(self) -> "Ear | select.poll":
        if self._idler is not None:
            return Ear(self._line.jobs.fileno(), self._bell)
        poll = select.poll()
        poll.register(self._line.jobs, select.POLLIN)
        poll.register(self._bell, select.POLLIN)
        return poll

    def _nap(self) -> int | None:
        self._asleep = True
        if self._outbox.count or self._sayings:
            self._asleep = False
            return _SOON
        return None

    def _read(self) -> bool:
        """Do what the node says; False if it is gone. Two may come for the same words."""
        with self._reading:
            try:
                data = self._line.jobs.recv(_READ, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            for body in self._splitter.feed(data):
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
            case Hold() | Go() | Forget():
                self._obey_early(message)
            case Stop(seq=seq):
                self._stop(seq)
            case Drop():
                self._give_back([*(job for job in self._take_all() if job is not None), *self._take_held()])
            case Quit():
                self._queue([None] * self._takers)
            case Follow(seq=seq):
                self._follow(seq)
            case Trim():
                self._capture.trim()

    def _obey_early(self, message: Hold | Go | Forget) -> None:
        held = self._take_held()
        match message:
            case Hold(jobs=jobs):
                self._held = jobs
                self._queue(())
            case Go():
                self._queue(held)

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
        if self._idler is not None:
            self._idler.wake()

    def _take_all(self) -> list[Job | None]:
        taken: list[Job | None] = []
        try:
            while True:
                taken.append(self.jobs.get_nowait())
        except Empty:
            return taken

    def _take_held(self) -> list[Job]:
        held, self._held = self._held, []
        return held

    def _stop(self, seq: int) -> None:
        waiting = self._take_all()
        dropped = [job for job in (*waiting, *self._held) if job is not None and job.seq == seq]
        self._held = [job for job in self._held if job not in dropped]
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
