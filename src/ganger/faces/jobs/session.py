"""A worker's connection from its first word to its last: the machine says what may be, the engine what is so.

What can go wrong, and why this is right:

- *The worker goes while it has a job.* The job goes back at once. If all of it had been sent the attempt counts as a
  crash, because a job that kills its workers must not go round for ever; if not, nothing counts.
- *The worker is there and does not answer.* After two status requests without an answer its job is taken back, and the
  connection ends: protocol 1 does not name jobs, so a late result could be taken for that of another.
- *The server loses the lease* (its store was away, its process stood still). Every write names the fence, so whatever
  the worker still sends is refused by the store, and the worker is sent away to register anew.
- *The server stops.* Jobs are given back without blame, and workers are told to come back.
- *A job waits for a worker that does not want it.* The end of a job and the claim of the next are one step, which saves
  the half of the time between two jobs. What was claimed so is sent when the worker has said that it is ready; if it
  says that it is busy, or nothing for a moment, it is given back.
- *The connection ends while a result is on its way into the store.* That is waited for: the result counts, and what was
  claimed with it is given back. Whatever the worker says meanwhile is heard afterwards.
- *Both sides act at once.* A claim that comes when the worker has just said that it is busy is given back; there is no
  wait between the look at the machine and the change of it.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable
from typing import Any, Final, assert_never

from ganger.core.errors import BadInput, GangerError, StaleLease, StoreError
from ganger.core.ids import TaskId
from ganger.core.outcome import Crashed, Fail, Killed, Outcome, Release
from ganger.core.task import Claimed
from ganger.engine.blob import BlobRef
from ganger.engine.settle import Settled
from ganger.engine.store import Claim
from ganger.faces.http.streams import StreamSocket
from ganger.faces.jobs.asking import Asking, Word
from ganger.faces.jobs.backend import JobsBackend
from ganger.faces.jobs.content import judge_unreadable, pour_payload
from ganger.faces.jobs.endings import SENT_AWAY, Ending, end_all, explain
from ganger.faces.jobs.enrolling import Admitted, Entry, find_grant, register_worker
from ganger.faces.jobs.registry import LOGS
from ganger.faces.jobs.starting import Starting
from ganger.faces.jobs.storing import Passage
from ganger.faces.jobs.workers import Reins, Seen
from ganger.wire.jobs import machine, messages
from ganger.wire.jobs.machine import Connection, Phase, Step
from ganger.wire.websocket import frames
from ganger.wire.websocket.frames import Opcode, Violation

_TOKEN_BYTES: Final = 16


class Session:
    """One connection."""

    def __init__(self, backend: JobsBackend, job_type: str | None, socket: StreamSocket) -> None:
        self._backend = backend
        self._engine = backend.engine
        self._job_type = job_type
        self._socket = socket
        self._machine = Connection(backend.plan.pace, backend.clock.now())
        self._admitted: Admitted | None = None
        self._job: Claimed | None = None
        self._delivered = False
        self._next: Claimed | None = None
        self._offering: asyncio.Task[None] | None = None
        self._starting = Starting(self._tell_started)
        self._asking = Asking(socket)
        self._passage = Passage(backend.storing, self._asking.ask, self._note_stored)
        self._over: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Converse until one side ends it, and leave nothing behind."""
        tasks = [asyncio.ensure_future(work) for work in (self._listen(), self._mind(), self._beat())]
        for task in tasks:
            task.add_done_callback(self._notice)
        self._socket.ear = self._overhear
        try:
            ending = await self._over
        finally:
            self._socket.ear = None
            self._starting.close()
            self._passage.forget()
            await end_all([*tasks, *([] if self._offering is None else [self._offering])])
        await self._leave(ending)
        self._socket.close(ending.code, ending.reason)

    def _finish(self, ending: Ending) -> None:
        if not self._over.done():
            self._over.set_result(ending)

    def _notice(self, task: "asyncio.Future[None]") -> None:
        """A part of the conversation is over, and with it the whole."""
        if not task.cancelled():
            self._finish(self._explain(task.exception()))

    def _explain(self, error: BaseException | None) -> Ending:
        if self._admitted is not None and self._backend.workers.is_kick(self._admitted.node.id, error):
            return SENT_AWAY
        return explain(error, self._socket.stopping, self._backend.telemetry)

    def recall(self, task: TaskId) -> None:
        """Somebody killed the job."""
        if self._job is not None and self._job.id == task:
            self._finish(Ending(frames.NOT_WANTED, "the job was killed: connect again for another", Killed("killed")))

    def send_away(self) -> None:
        """An operator does not want this worker; what it had goes to another, and is not blamed."""
        self._finish(SENT_AWAY)

    async def _listen(self) -> None:
        while (opcode := await self._await_message()) is not None:
            if opcode is Opcode.TEXT:
                # A stranger is not given the room for logs.
                most = self._backend.limits.field if self._admitted is None else self._backend.limits.text
                await self._hear(await self._socket.text(most))
            else:
                await self._do(self._machine.hear_binary(self._now()))
                if self._machine.phase is Phase.REFUSED:
                    await self._drop()

    async def _await_message(self) -> Opcode | None:
        """What is next, when nothing is left to be done about what was before it; None if it does not matter."""
        opcode = await self._socket.receive()
        await self._passage.wait()
        return None if self._over.done() else opcode

    def _overhear(self, opcode: Opcode, data: bytes) -> bool:
        """The short way of what comes most: a small result, and the word of a worker that it takes its next job."""
        if self._over.done():
            return False
        if self._passage.is_taken:
            return self._asking.overhear(opcode, data)
        return self._take_result(data) if opcode is Opcode.BINARY else self._take_word(data)

    def _take_result(self, data: bytes) -> bool:
        job, is_small = self._job, len(data) <= self._engine.limits.inline
        if job is None or not self._delivered or not is_small or self._machine.phase is not Phase.WORKING:
            return False
        self._machine.hear_more(self._now())
        self._passage.send(job, data, self._here().claim)
        return True

    def _take_word(self, text: bytes) -> bool:
        return self._machine.phase is Phase.ASKED and messages.is_ready(text) and self._send_next()

    def _send_next(self) -> bool:
        """Send what was claimed to a worker that was asked and is ready, if that can be done at once."""
        job = self._next
        if job is None or job.spec is None or not self._socket.is_free:
            return False
        self._machine.take_next(self._now())
        self._withdraw()
        self._next, self._job = None, job
        self._socket.send_now(frames.encode(Opcode.BINARY, job.spec))
        self._end_delivery(job)
        self._note()
        return True

    async def _drop(self) -> None:
        async for _ in self._socket.pieces():
            pass

    async def _hear(self, text: bytes) -> None:
        try:
            message = messages.read_message(text)
        except BadInput as error:
            raise Violation(frames.NOT_WANTED, error.message) from None
        await self._do(self._machine.hear(message, self._now()))
        if self._machine.phase is Phase.BUSY:
            await self._return_next()
        self._note()

    async def _mind(self) -> None:
        """Look at the clock: at the end of the grace, and then from time to time."""
        pace = self._backend.plan.pace
        await asyncio.sleep(pace.grace / 1000)
        while True:
            # A job that is on its way keeps the connection: whether it moves is watched where it is written.
            if self._job is None or self._delivered:
                await self._return_next()
                await self._do(self._machine.tick(self._now()))
            await asyncio.sleep(pace.every / 4000)

    async def _beat(self) -> None:
        """Keep the lease, and hear who is to be killed."""
        while True:
            await asyncio.sleep(self._backend.limits.beat)
            here = self._admitted
            if here is None:
                continue
            if here.grant is not None and not self._backend.keeper.holds(here.grant):
                return self._finish(Ending(frames.NOT_WANTED, "the token was revoked, or has expired", Release()))
            try:
                kills = (await self._engine.nodes.beat(here.node.id, here.token)).kills
            except StoreError as error:
                # The store may come back before the lease has ended; if not, the next beat is told so.
                self._backend.telemetry.event("worker_not_renewed", worker=here.identity, error=error.code)
                continue
            for task in kills:
                self.recall(task)

    async def _do(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, machine.Kick):
                self._finish(Ending(step.code, step.reason, Crashed(step.reason)))
                # Nothing that comes behind it counts: whoever waits here is ended with the rest.
                await asyncio.get_running_loop().create_future()
            else:
                await self._act(step)

    async def _act(self, step: machine.Act) -> None:
        match step:
            case machine.Admit(registration):
                await self._admit(registration)
            case machine.Ask():
                await self._socket.send_text(messages.ASK_STATUS)
            case machine.Offer():
                self._withdraw()
                self._follow(self._work())
            case machine.Withdraw():
                self._withdraw()
            case machine.Report(progress):
                await self._report(progress)
            case machine.Give(failed):
                await self._fail(failed)
            case machine.Accept():
                await self._accept()
            case _:
                assert_never(step)

    async def _admit(self, said: messages.Registration) -> None:
        grant = find_grant(self._backend, self._job_type, said.token)
        if self._backend.plan.authenticates and grant is None:
            self._machine.refuse()
            self._backend.tell_refused(said.id, self._job_type, self._socket.peer)
            return
        token = self._backend.entropy.token(_TOKEN_BYTES).hex()
        queue = await self._backend.find_queue(self._job_type)
        node = await register_worker(self._engine, queue, Entry(said.id, token, self._backend.limits.lease))
        now = self._backend.clock.wall()
        worker = Seen(said.id, said.name, self._job_type, self._socket.peer, node.id, node.name, Phase.ASKED, now, now)
        number = self._backend.workers.enrol(worker, Reins(self.recall, self.send_away))
        self._backend.tell_joined(worker)
        self._admitted = Admitted(number, said.id, node, token, grant, Claim(node.id, (queue.id,)))
        await self._do(self._machine.admit(self._now()))

    def _follow(self, work: Coroutine[Any, Any, None]) -> None:
        self._offering = asyncio.ensure_future(work)
        self._offering.add_done_callback(self._notice_offer)

    def _notice_offer(self, offering: "asyncio.Future[None]") -> None:
        if not offering.cancelled() and offering.exception() is not None:
            self._notice(offering)

    def _withdraw(self) -> None:
        if self._offering is not None:
            self._offering.cancel()
            self._offering = None

    async def _work(self) -> None:
        """Wait for a job and send it. What is claimed for one who goes meanwhile is given back by the engine."""
        claimed, self._next = [] if self._next is None else [self._next], None
        if not claimed:
            await self._backend.workers.rest(self._here().identity)
        for job in claimed or await self._engine.wait_claim(self._here().claim):
            if not self._machine.send_job(self._now()):
                await self._engine.release(job.lease)
                continue
            self._job, self._delivered = job, False
            self._note()
            await self._deliver(job)

    async def _deliver(self, job: Claimed) -> None:
        try:
            await self._socket.send_binary(pour_payload(self._engine, job))
        except GangerError as error:
            # The worker has a part of it, and the rest cannot be read.
            self._delivered = True
            self._finish(Ending(frames.BROKEN, "the payload cannot be read", judge_unreadable(error)))
        self._machine.hear_more(self._now())
        self._end_delivery(job)

    def _end_delivery(self, job: Claimed) -> None:
        self._delivered = True
        self._passage.expect()
        self._starting.begin(job)

    def _tell_started(self, job: Claimed) -> None:
        if self._job is job and not self._over.done():
            self._follow(self._start(job))

    async def _start(self, job: Claimed) -> None:
        await self._engine.start([job.lease])

    async def _report(self, progress: messages.Progress) -> None:
        if self._job is not None:
            await self._engine.progress(self._job.lease, progress.percent, progress.info)

    async def _fail(self, failed: messages.Failed) -> None:
        job = self._open_job()
        if failed.logs:
            await self._engine.append_output(job.lease, LOGS, 0, failed.logs.encode())
        await self._settle(job, Fail(reason=failed.info or "the worker says that it failed"))

    async def _accept(self) -> None:
        """Take in a result as it comes; it is safe before the job is complete."""
        job = self._open_job()
        result = await self._engine.keep(self._read_result())
        if isinstance(result, BlobRef):
            await self._engine.put_data(job.lease, "result", result)
        self._passage.send(job, result if isinstance(result, bytes) else None, self._here().claim)
        await self._passage.wait()

    async def _read_result(self) -> AsyncGenerator[bytes, None]:
        async for piece in self._socket.pieces():
            self._machine.hear_more(self._now())
            yield piece

    def _note_stored(self, reply: Settled | Exception) -> None:
        try:
            self._go_on(reply, succeeded=True)
        except Exception as error:
            self._finish(self._explain(error))

    async def _settle(self, job: Claimed, outcome: Fail) -> None:
        """Nothing is claimed along: whoever fails gets the next job after a pause."""
        self._go_on(await self._engine.settle([(job, outcome)]), succeeded=False)

    def _go_on(self, settled: Settled | Exception, *, succeeded: bool) -> None:
        """Its job is over. Whether it takes the next one, it is asked."""
        if isinstance(settled, Exception):
            raise settled
        if settled.refused:
            raise StaleLease("the job is not this worker's any more", task=None if self._job is None else self._job.id)
        self._job, self._next = None, next(iter(settled.claimed), None)
        self._starting.end()
        if self._next is None:
            self._passage.forget()
        self._backend.workers.tally(self._here().identity, succeeded=succeeded)
        if not self._over.done():
            self._ask_next()

    def _ask_next(self) -> None:
        word = self._asking.end()
        if word is Word.READY and self._send_next():
            return
        steps = self._machine.end_job(self._now())
        if word in (Word.READY, Word.MORE):
            self._machine.hear(messages.READY, self._now())
            self._withdraw()
            self._follow(self._work())
        elif word is Word.NONE:
            self._follow(self._do(steps))
        self._note()

    async def _return_next(self) -> None:
        """Give back what was claimed for a worker that does not take it."""
        job, self._next = self._next, None
        if job is not None:
            await self._engine.release(job.lease)

    def _open_job(self) -> Claimed:
        if self._job is None:
            raise Violation(frames.NOT_WANTED, "no job is open")
        return self._job

    def _here(self) -> Admitted:
        if self._admitted is None:
            raise Violation(frames.NOT_WANTED, "a worker registers before it says anything else")
        return self._admitted

    def _note(self) -> None:
        if self._admitted is not None:
            job = None if self._job is None else self._job.id
            self._backend.workers.note(self._admitted.number, self._machine.phase, job)

    def _now(self) -> int:
        return self._backend.clock.now()

    async def _leave(self, ending: Ending) -> None:
        """Give back what it had, and end the registration."""
        await self._passage.wait()
        here, job, following = self._admitted, self._job, self._next
        if here is None:
            return
        self._backend.workers.dismiss(here.number)
        outcome = ending.outcome if self._delivered else Release()
        had: list[tuple[Claimed, Outcome]] = [] if job is None else [(job, outcome)]
        had += [] if following is None else [(following, Release())]
        try:
            if had:
                await self._engine.settle(had)
            await self._engine.nodes.leave(here.node.id, here.token)
        except GangerError as error:
            # Its lease ends by itself, and upkeep gives the job back then.
            self._backend.telemetry.event("worker_not_left", worker=here.identity, error=error.code)
        if job is not None and isinstance(outcome, Crashed):
            self._backend.workers.tally(here.identity, succeeded=False)
