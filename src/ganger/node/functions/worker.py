"""The process that executes functions: one after another, on some threads, or on an event loop."""

import os
import socket
import sys
import threading
from pathlib import Path
from queue import Empty
from typing import Final

from ganger.core.clock import Clock
from ganger.node.functions.binding import Allowed
from ganger.node.functions.capture import ContextCapture, FileCapture
from ganger.node.functions.charge import Charge
from ganger.node.functions.context import Context
from ganger.node.functions.dying import die
from ganger.node.functions.execution import Executor, confess
from ganger.node.functions.logs import set_level
from ganger.node.functions.looping import Looper
from ganger.node.functions.messages import ENCODER, Hello, How, Job, Mode, Result, frame
from ganger.node.functions.note import Note
from ganger.node.functions.outbox import Outbox
from ganger.node.functions.porter import Line, Porter
from ganger.node.functions.track import Place

_SWITCH: Final = 0.001
"""Seconds: so long a function that computes keeps the porter from its work at most."""


def work(charge: Charge, clock: Clock) -> None:
    """Return when the node wants no more."""
    note, line = Note.open(Path(charge.note)), Line(_claim_socket(charge.jobs), _claim_socket(charge.results))
    outbox = Outbox(charge.outbox)
    os.close(charge.outbox)
    sys.setswitchinterval(_SWITCH)
    set_level(charge.level)
    place, said = Place(charge.spool, charge.cap), (charge.django, Allowed(tuple(charge.allow.split())))
    line.results.sendall(frame(Hello(os.getpid())))
    match Mode(charge.mode):
        case Mode.PROCESS:
            executor = Executor(FileCapture(place), *said, sends_async_away=True)
            _work_alone(Porter(line, outbox, clock, 1, executor.capture), note, clock, executor)
        case Mode.THREAD:
            executor = Executor(ContextCapture(place), *said, sends_async_away=True)
            porter = Porter(line, outbox, clock, charge.slots, executor.capture)
            _work_in_threads(porter, note, clock, executor, charge.slots)
        case Mode.LOOP:
            executor = Executor(ContextCapture(place), *said, sends_async_away=False)
            Looper(line, outbox, clock, note, executor).work()


def _claim_socket(fd: int) -> socket.socket:
    sock = socket.socket(fileno=fd)
    # Programs that a function starts must not hold our line open.
    sock.set_inheritable(False)
    return sock


def _work_alone(porter: Porter, note: Note, clock: Clock, executor: Executor) -> None:
    porter.listen_alone(note)
    porter.start()
    Hand(0, porter, note, clock, executor, is_alone=True).work()


def _work_in_threads(porter: Porter, note: Note, clock: Clock, executor: Executor, count: int) -> None:
    porter.start()
    hands = [Hand(slot, porter, note, clock, executor) for slot in range(count)]
    threads = [threading.Thread(target=hand.work, name=f"slot {hand.slot}", daemon=True) for hand in hands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Hand:
    """One thread that executes jobs, one at a time."""

    def __init__(
        self, slot: int, porter: Porter, note: Note, clock: Clock, executor: Executor, *, is_alone: bool = False
    ) -> None:
        self.slot = slot
        self._is_alone = is_alone
        self._porter = porter
        self._note = note
        self._clock = clock
        self._executor = executor
        self._pid = os.getpid()

    def work(self) -> None:
        """Return when there are no more jobs; if it cannot go on before that, the process ends with it."""
        try:
            self._work()
        except BaseException:
            die()

    def _work(self) -> None:
        jobs, porter = self._porter.jobs, self._porter
        take, wait = jobs.get_nowait, porter.take_alone if self._is_alone else jobs.get
        while True:
            try:
                job = take()
            except Empty:
                porter.send()
                job = wait()
            if job is None:
                porter.send()
                return
            try:
                result = self._execute(job)
            except BaseException as error:
                self._answer(job, confess(job, error))
                if self._is_alone:
                    # What it printed may still lie where the next one prints.
                    raise
            else:
                self._answer(job, result)

    def _answer(self, job: Job, result: bytes) -> None:
        if os.getpid() != self._pid:
            # The function forked, and this is the copy: the job is not its own, nor is anything else here.
            os._exit(0)
        self._porter.give(result)
        # The result is safe: only now nobody can be blamed for what comes next.
        self._note.end(self.slot)
        self._porter.forget(job.seq)

    def _execute(self, job: Job) -> bytes:
        now = self._clock.now()
        if now >= self._note.trust:
            return ENCODER.encode(Result(job.seq, How.DISTRUSTED))
        self._note.begin(self.slot, job.seq, job.task, job.fence, now)
        context = Context(self._porter, job.seq, job.task, job.fence, job.attempt, masks=job.masks, trace=job.trace)
        return self._executor.execute(job, context)
