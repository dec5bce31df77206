"""A warm process as the node sees it: jobs go in, results come out, and its end is told when nothing of it is left."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, assert_never

import msgspec

from ganger.core.clock import Moment
from ganger.core.errors import GangerError
from ganger.core.ids import Fence, TaskId
from ganger.node.executor import Assignment, Ended, Told
from ganger.node.functions.charge import Charge
from ganger.node.functions.early import Early
from ganger.node.functions.messages import (
    NODE_DECODER,
    SMALL,
    Begin,
    Done,
    FromChild,
    Hello,
    Job,
    Mode,
    Quit,
    Result,
    Said,
    Splitter,
    ToChild,
    frame,
)
from ganger.node.functions.note import Cause, Executing, Note
from ganger.node.functions.options import FunctionOptions
from ganger.node.functions.outbox import Outbox, make_memory
from ganger.node.lengths import Name
from ganger.node.masking import mask, mask_pieces
from ganger.node.spool import LARGEST, Bell, Spool, SpoolKey, SpoolWriter
from ganger.runtime.django import VARIABLE as DJANGO

STREAMS: Final = ("stdout", "stderr")
_PROGRAM: Final = ("-u", "-m", "ganger.node.functions")
"""Unbuffered: what it prints is in its files at once, whether or not it lives to flush it."""
_PATIENCE: Final = 1.0
_TRACE: Final = "TRACEPARENT"
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Stopped(NamedTuple):
    """Why an errand was stopped: somebody asked for it, or it took too long."""

    reason: str
    is_late: bool = False


class Errand(msgspec.Struct, eq=False):
    """A job in the node's hands. `stopped`: it is not wanted any more, and why. `masks` must be shown to nobody."""

    seq: int
    assignment: Assignment
    told: Told
    name: Name
    stopped: Stopped | None = None
    masks: tuple[bytes, ...] = ()

    def is_of(self, task: TaskId, fence: Fence) -> bool:
        return self.assignment.claimed.id == task and self.assignment.claimed.fence == fence


def tell(ended: Sequence[tuple[Errand, Ended]]) -> None:
    """Tell those who handed errands over of many at once: nearly always one has handed over all."""
    for told in dict.fromkeys([errand.told for errand, _ in ended]):
        told([(errand.assignment, end) for errand, end in ended if errand.told == told])


class Hearing(NamedTuple):
    """Who is told what a child says."""

    results: Callable[["Child", Sequence[int | Result]], None]
    sayings: Callable[["Child", Sequence[tuple[int, float | None, str | None]]], None]
    gone: Callable[["Child"], None]
    failed: Callable[["Child", GangerError], None]


class Child(asyncio.Protocol):
    """One warm process: warm from its first word on, ended by `kill` or `quit`; `gone` is told at the end."""

    def __init__(self, name: str, mode: Mode, slots: int, options: FunctionOptions, hearing: Hearing) -> None:
        self.mode = mode
        self.errands: dict[int, Errand] = {}
        self.is_warm = False
        self.is_retiring = False
        self.is_killed = False
        self._is_closed = False
        self.served = 0
        self.pid = 0
        self._path = options.notes / f"{name}.note"
        self._options = options
        self._hearing = hearing
        self.note = Note.make(self._path, slots)
        self._slots = slots
        self._splitter = Splitter()
        self._early = Early(self.note)
        self._files = [_open_unnamed(options.spool / f"{name}.{stream}") for stream in STREAMS]
        self._lifeline: int | None = None
        self._outbox: Outbox
        self._jobs: asyncio.WriteTransport | None = None
        self._results: asyncio.ReadTransport | None = None
        self._silent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watch: asyncio.Task[None]
        self._watch_ended = 0

    async def start(self) -> None:
        """Start the process; OSError if that cannot be."""
        (jobs, their_jobs), (results, their_results) = socket.socketpair(), socket.socketpair()
        reader, self._lifeline = os.pipe()
        memory = make_memory()
        self._outbox = Outbox(memory)
        given = [their_jobs.fileno(), their_results.fileno(), memory, reader]
        try:
            process = await self._spawn(given)
        except BaseException:
            jobs.close()
            results.close()
            self._close()
            raise
        finally:
            their_jobs.close()
            their_results.close()
            os.close(reader)
            os.close(memory)
        loop = asyncio.get_running_loop()
        self._jobs, _ = await loop.create_unix_connection(asyncio.Protocol, sock=jobs)
        self._early.open(jobs, self._jobs)
        self._results, _ = await loop.create_unix_connection(lambda: self, sock=results)
        self._watch = loop.create_task(self._outlive(process), name=f"outlive {self._path.stem}")

    async def _spawn(self, given: Sequence[int]) -> asyncio.subprocess.Process:
        options = self._options
        fixed = {DJANGO: options.django} if options.django else {}
        said = options.level, options.django, "\n".join(options.allow), options.files or 0
        charge = Charge(self.mode, self._slots, str(self._path), str(options.spool), options.cap, *said, *given)
        paths = os.pathsep.join([*options.paths, *filter(None, sys.path)])
        return await asyncio.create_subprocess_exec(
            *(sys.executable, *_PROGRAM, *charge.words()),
            env={**options.environment, **fixed, "PYTHONPATH": paths},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=self._files[0],
            stderr=self._files[1],
            pass_fds=given,
            start_new_session=True,
        )

    def data_received(self, data: bytes) -> None:
        for body in self._splitter.feed(data):
            for message in self._early.sift(NODE_DECODER.decode(body)):
                self._hear(message)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._silent.done():
            self._silent.set_result(None)

    def _hear(self, message: FromChild) -> None:
        match message:
            case Hello(pid=pid):
                self.is_warm, self.pid = True, pid
                self._hearing.results(self, ())
            case Done(results=results):
                self.served += len(results)
                self._hearing.results(self, results)
            case Said(sayings=sayings):
                self._hearing.sayings(self, sayings)
            case _:
                assert_never(message)

    async def _outlive(self, process: asyncio.subprocess.Process) -> None:
        self._watch_ended = await process.wait()
        # What it had sent is still on its way; somebody below it who holds the line open was killed by the warden.
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                await asyncio.shield(self._silent)
        await self._early.end()
        if leftover := self._outbox.leftover():
            self._hearing.results(self, leftover)
        await self._try_to_rescue()
        self._hearing.gone(self)
        self._close()

    async def _try_to_rescue(self) -> None:
        try:
            await asyncio.to_thread(self._rescue)
        except GangerError as error:
            # What it had printed is lost, but not the word that it died.
            self._hearing.failed(self, error)

    def _close(self) -> None:
        self._is_closed = True
        self.let_go()
        if self._jobs is not None:
            self._jobs.abort()
        if self._results is not None:
            self._results.close()
        for fd in self._files:
            os.close(fd)
        self._outbox.close()
        self.note.close()
        self._path.unlink(missing_ok=True)

    async def ended(self) -> None:
        """Wait until nothing of it is left, and everybody was told."""
        await asyncio.shield(self._watch)

    def begin(self, errands: Sequence[Errand]) -> None:
        jobs: list[Job] = []
        # Spelt out for its heat: a call for each would cost as much again.
        for errand in errands:
            self.errands[errand.seq] = errand
            assignment = errand.assignment
            claimed, trace = assignment.claimed, assignment.environment.get(_TRACE, "")
            attempt = claimed.attempts + 1
            jobs.append(Job(errand.seq, claimed.id, claimed.fence, attempt, assignment.spec, errand.masks, trace))
        self.send(Begin(jobs))

    def prepare(self, jobs: list[Job]) -> bool:
        """On any thread: lay there what the loop does not know of yet, if nothing is in the way."""
        return self.is_warm and self.mode is Mode.PROCESS and self._early.prepare(jobs)

    def begin_prepared(self) -> None:
        self._early.begin()

    def forget_prepared(self) -> None:
        self._early.forget()

    def is_early(self, seq: int) -> bool:
        return seq in self._early.seqs

    def adopt(self, errands: Sequence[Errand]) -> None:
        """These were begun early: what was said of them meanwhile is heard now."""
        self.errands |= {errand.seq: errand for errand in errands}
        for message in self._early.adopt([errand.seq for errand in errands]):
            self._hear(message)

    def send(self, message: ToChild) -> None:
        if self._jobs is not None and not self._jobs.is_closing():
            self._early.write(frame(message))

    def trust(self, until: Moment) -> None:
        self.note.trust = until

    def quit(self) -> None:
        """It ends when it has done what it has."""
        self.is_retiring = True
        self._early.close()
        self.send(Quit())

    def kill(self) -> None:
        """It ends now, with all that it started."""
        self.is_killed = True
        self._early.close()
        self.let_go()

    def let_go(self) -> None:
        """Close the lifeline: the warden ends everything."""
        lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            os.close(lifeline)

    def executing(self) -> list[Executing]:
        return self.note.executing()

    @property
    def cause(self) -> Cause:
        return self.note.cause

    def tell_end(self) -> str:
        """How its process ended, for people."""
        ended = self.note.exit_status
        if self._watch_ended < 0:
            return f"the process that watched it was killed by {_name(-self._watch_ended)}"
        if os.WIFSIGNALED(ended):
            return f"its process was killed by {_name(os.WTERMSIG(ended))}"
        return f"its process exited with code {os.WEXITSTATUS(ended)}"

    def measure(self, seq: int, stream: str) -> int:
        """How much the function that is executed has printed; 0 if it is not this one, or has secrets to print."""
        if self._masks(seq):
            return 0
        size = os.fstat(self._files[STREAMS.index(stream)]).st_size
        return min(size, self._options.cap) if self._executes(seq) else 0

    def peek(self, seq: int, stream: str, offset: int, most: int) -> bytes:
        """What the function that is executed has printed; nothing if it is not this one before and after."""
        if self._is_closed or self._masks(seq) or not self._executes(seq):
            return b""
        body = os.pread(self._files[STREAMS.index(stream)], most, offset)
        return body if self._executes(seq) else b""

    def _masks(self, seq: int) -> Sequence[bytes]:
        """What is masked at its end, and may be seen by nobody before."""
        errand = self.errands.get(seq)
        return () if errand is None else errand.masks

    def _executes(self, seq: int) -> bool:
        return any(one.seq == seq for one in self.note.executing())

    @property
    def is_verbose(self) -> bool:
        """Has it printed more than is kept?"""
        return any(os.fstat(fd).st_size > self._options.cap for fd in self._files)

    def _rescue(self) -> None:
        """What a dead process had printed for the function that it executed goes to the spool if it is much."""
        spool = Spool(self._options.spool, self._options.cap)
        for one in self.executing() if self.mode is Mode.PROCESS else ():
            for stream, fd in zip(STREAMS, self._files, strict=True):
                size = os.fstat(fd).st_size
                if size > SMALL:
                    pieces = mask_pieces(_read(fd, size), self._masks(one.seq))
                    _copy(pieces, spool.write(SpoolKey(one.task, one.fence, stream), Bell()))

    def printed(self, masks: Sequence[bytes] = ()) -> dict[str, bytes]:
        """What a dead process had printed for the function that it executed, as far as it is little."""
        if self.mode is not Mode.PROCESS:
            return {}
        small = {name: fd for name, fd in zip(STREAMS, self._files, strict=True) if 0 < os.fstat(fd).st_size <= SMALL}
        return {name: mask(_tail(fd), masks) for name, fd in small.items()}

    def spooled(self, task: TaskId, fence: Fence) -> tuple[str, ...]:
        """The streams of an attempt that are in the spool."""
        spool = Spool(self._options.spool, self._options.cap)
        return tuple(name for name in (*STREAMS, "log") if spool.has(SpoolKey(task, fence, name)))

    def last_words(self) -> str:
        """The end of what was written to its standard error and belongs to no function."""
        return _tail(self._files[1])[-2_000:].decode("utf-8", "replace")

    def memory(self) -> int:
        """Bytes that the process has now; 0 where the system does not tell."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError):
            return 0


def _open_unnamed(path: Path) -> int:
    """A file to append to that is gone when it is closed by all."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    path.unlink()
    return fd


def _read(fd: int, size: int) -> Iterator[bytes]:
    return (os.pread(fd, min(LARGEST, size - at), at) for at in range(0, size, LARGEST))


def _copy(pieces: Iterable[bytes], writer: SpoolWriter) -> None:
    for piece in pieces:
        writer.write(piece)
    writer.close()


def _tail(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    return os.pread(fd, SMALL, max(0, size - SMALL))


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
