"""Functions on an event loop: as many at once as there are slots; what is not async runs on a thread beside it."""

import asyncio
import inspect
from collections.abc import Iterable
from queue import Empty

from ganger.core.clock import Clock
from ganger.node.functions.context import CURRENT, Context
from ganger.node.functions.execution import Executor, Said, call, explain, succeed
from ganger.node.functions.messages import ENCODER, How, Job, Result
from ganger.node.functions.note import Note
from ganger.node.functions.outbox import Outbox
from ganger.node.functions.porter import Line, Porter


class Looper(Porter):
    """The porter's thread brings jobs; the loop takes them when a slot is free."""

    def __init__(self, line: Line, outbox: Outbox, clock: Clock, note: Note, executor: Executor) -> None:
        super().__init__(line, outbox, clock, 1, executor.capture)
        self._note = note
        self._executor = executor
        self._free = list(range(note.slots))
        self._running: dict[int, asyncio.Task[Said]] = {}
        self._hands: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop
        self._is_quitting = False
        self._ended: asyncio.Event

    def work(self) -> None:
        """Return when the node wants no more and all have ended."""
        asyncio.run(self._work())

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self.start()
        await self._ended.wait()
        self.send()

    def _queue(self, jobs: Iterable[Job | None]) -> None:
        super()._queue(jobs)
        self._loop.call_soon_threadsafe(self._take)

    def stop_running(self, seq: int) -> None:
        self._loop.call_soon_threadsafe(self._cancel, seq)

    def _cancel(self, seq: int) -> None:
        if seq in self._running:
            self._running[seq].cancel()
        # One that has not reached its function yet looks for itself.

    def _take(self) -> None:
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
        now = self._clock.now()
        if now >= self._note.trust:
            self.give(ENCODER.encode(Result(job.seq, How.DISTRUSTED)))
            return
        slot = self._free.pop()
        self._note.begin(slot, job.seq, job.task, job.fence, now)
        hand = self._loop.create_task(self._execute(job, slot))
        self._hands.add(hand)
        hand.add_done_callback(self._hands.discard)

    async def _execute(self, job: Job, slot: int) -> None:
        context = Context(self, job.seq, job.task, job.fence, job.attempt, masks=job.masks, trace=job.trace)
        CURRENT.set(context)
        said = await self._outlast(job)
        self.give(self._executor.seal(job, context, said))
        self._note.end(slot)
        self._free.append(slot)
        self.forget(job.seq)
        self._loop.call_soon(self._take)

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
        spec, target = self._executor.prepare(job)
        result = call(spec, target) if target.is_async else await asyncio.to_thread(call, spec, target)
        return succeed(spec.path, await result if inspect.isawaitable(result) else result)
