"""Functions on an event loop: as many at once as there are slots; what is not async runs on a thread beside it."""

import asyncio
import inspect
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import copy_context
from queue import Empty
from typing import Any

from ganger.core.clock import Clock
from ganger.node.functions.binding import Target
from ganger.node.functions.context import CURRENT, Context
from ganger.node.functions.dying import die
from ganger.node.functions.execution import Executor, Said, call, confess, explain, succeed
from ganger.node.functions.messages import ENCODER, How, Job, Result
from ganger.node.functions.note import Note
from ganger.node.functions.outbox import Outbox
from ganger.node.functions.porter import Line, Porter
from ganger.runtime import django
from ganger.wire.specs import FunctionSpec


class Looper(Porter):
    """The porter's thread brings jobs; the loop takes them when a slot is free."""

    def __init__(self, line: Line, outbox: Outbox, clock: Clock, note: Note, executor: Executor) -> None:
        super().__init__(line, outbox, clock, 1, executor.capture)
        self._note = note
        self._executor = executor
        self._free = list(range(note.slots))
        self._running: dict[int, asyncio.Task[Said]] = {}
        self._hands: set[asyncio.Task[None]] = set()
        self._apart: set[int] = set()
        self._threads = ThreadPoolExecutor(note.slots, "slot")
        self._loop: asyncio.AbstractEventLoop
        self._is_quitting = False
        self._ended: asyncio.Event
        self._pid = os.getpid()

    def work(self) -> None:
        """Return when the node wants no more and all have ended."""
        asyncio.run(self._work())

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self.start()
        await self._ended.wait()
        self.send()
        # A thread that a function left in the loop's own pool would be waited for, and may run for ever.
        self._loop.set_default_executor(ThreadPoolExecutor(1))

    def _queue(self, jobs: Iterable[Job | None]) -> None:
        super()._queue(jobs)
        self._loop.call_soon_threadsafe(self._take)

    def stop_running(self, seq: int) -> None:
        self._loop.call_soon_threadsafe(self._cancel, seq)

    def _cancel(self, seq: int) -> None:
        # A thread cannot be cancelled: its function is asked, and runs until it returns or its process is ended.
        if seq in self._running and seq not in self._apart:
            self._running[seq].cancel()
        # One that has not reached its function yet looks for itself.

    def _take(self) -> None:
        try:
            self._fill()
        except BaseException:
            die()

    def _fill(self) -> None:
        while self._free:
            try:
                job = self.jobs.get_nowait()
            except Empty:
                break
            if job is None:
                self._is_quitting = True
            else:
                self._begin(job)
        if self._is_quitting and not self._hands:
            self._ended.set()

    def _begin(self, job: Job) -> None:
        hand = self._loop.create_task(self._serve(job, self._free.pop()))
        self._hands.add(hand)
        hand.add_done_callback(self._hands.discard)

    async def _serve(self, job: Job, slot: int) -> None:
        """Whatever happens there is an answer; if not even that can be given, the process ends."""
        try:
            result = await self._execute(job, slot)
        except BaseException as error:
            result = confess(job, error)
        try:
            self._answer(job, slot, result)
        except BaseException:
            die()

    def _answer(self, job: Job, slot: int, result: bytes) -> None:
        if os.getpid() != self._pid:
            # The function forked, and this is the copy: the job is not its own, nor is anything else here.
            os._exit(0)
        self.give(result)
        self._note.end(slot)
        self._free.append(slot)
        self.forget(job.seq)
        self._loop.call_soon(self._take)

    async def _execute(self, job: Job, slot: int) -> bytes:
        now = self._clock.now()
        if now >= self._note.trust:
            return ENCODER.encode(Result(job.seq, How.DISTRUSTED))
        self._note.begin(slot, job.seq, job.task, job.fence, now)
        context = Context(self, job.seq, job.task, job.fence, job.attempt, masks=job.masks, trace=job.trace)
        CURRENT.set(context)
        said = await self._outlast(job)
        return self._executor.seal(job, context, said)

    async def _outlast(self, job: Job) -> Said:
        """Run the function in a task of its own: a stop cancels that, and never the one who tells the result."""
        running = self._running[job.seq] = self._loop.create_task(self._call(job))
        if self.is_unwanted(job.seq):
            running.cancel()
        try:
            return await running
        except BaseException as error:
            return explain(error)
        finally:
            del self._running[job.seq]

    async def _call(self, job: Job) -> Said:
        try:
            spec, target = self._executor.prepare(job)
            result = call(spec, target) if target.is_async else await self._call_apart(job.seq, spec, target)
            result = await self._executor.wait(result) if inspect.isawaitable(result) else result
            return succeed(spec.path, result, target.parameters.returns)
        except BaseException as error:
            # Told from here: an exit that leaves a task ends the loop, and all that runs on it.
            return explain(error)

    async def _call_apart(self, seq: int, spec: FunctionSpec, target: Target) -> Any:
        around = copy_context()
        self._apart.add(seq)
        try:
            project = self._executor.project
            return await self._loop.run_in_executor(self._threads, around.run, _call_plainly, spec, target, project)
        finally:
            self._apart.discard(seq)


def _call_plainly(spec: FunctionSpec, target: Target, project: str) -> Any:
    """A StopIteration would never come out of the thread: no future carries one."""
    try:
        with django.around() if project else nullcontext():
            return call(spec, target)
    except StopIteration as error:
        raise RuntimeError(f"{spec.path} raised StopIteration") from error
