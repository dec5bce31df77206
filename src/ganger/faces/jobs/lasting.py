"""A worker's connection in protocol 2, whose jobs outlast it.

Jobs are named by task and fence, so whatever a worker says about one is checked by the store alone, and nothing about
jobs has to be remembered here. A worker is a node whose lease outlasts its connection: one that comes back in time, to
this server or to the next, names its session and goes on; what it computed meanwhile is accepted if the lease still
holds, and refused if not. One that does not come back loses its jobs when the lease has ended.

How long that is depends on who went. If the server did, it is what is left of the lease, a minute at most, so that
there is time to start another. If the connection did and the server is there to see it, the worker was killed more
often than not, and others wait for its jobs: the lease is cut to a few seconds, in which a worker that lives is back.

One that closes in order leaves, and its jobs go back at once; so they do if it answers nothing, which counts as a
crash.

How many jobs it has at a time is a limit of the node, which the store keeps; here is only whether it wants any.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Final, assert_never

import msgspec

from ganger.core.errors import (
    BadInput,
    GangerError,
    NodeGone,
    NodeNotFound,
    NotFound,
    StaleLease,
    StoreError,
    TaskNotFound,
)
from ganger.core.ids import TaskId
from ganger.core.lease import Lease
from ganger.core.node import Node
from ganger.core.outcome import Fail, Killed, Outcome, Succeed
from ganger.core.state import LEASED
from ganger.core.task import Claimed
from ganger.engine.blob import BlobRef
from ganger.engine.contents import Content
from ganger.engine.store import Claim, Query
from ganger.faces.http.grants import Grant
from ganger.faces.http.request import ClientGone
from ganger.faces.http.streams import StreamSocket
from ganger.faces.jobs.backend import JobsBackend
from ganger.faces.jobs.content import judge_unreadable
from ganger.faces.jobs.endings import race
from ganger.faces.jobs.enrolling import Entry, find_grant, register_worker
from ganger.faces.jobs.parting import Here, await_return, give_up, leave
from ganger.faces.jobs.registry import LOGS
from ganger.faces.jobs.workers import KICKED, Reins, Seen
from ganger.runtime.faults import name_fault
from ganger.wire.jobs import second
from ganger.wire.jobs.machine import Phase
from ganger.wire.jobs.messages import ASK_STATUS, Status, WorkerStatus
from ganger.wire.jobs.second import Code
from ganger.wire.websocket import frames
from ganger.wire.websocket.frames import Opcode, Violation

_COME_BACK: Final = 1012
_LOOK_AGAIN: Final = 5.0
_TOKEN_BYTES: Final = 16
_IN_ORDER: Final = frozenset({frames.NORMAL, frames.GOING_AWAY})
_encode: Final = msgspec.json.Encoder().encode


class _Silent(Violation):
    """It leaves every status request unanswered."""


class LastingSession:
    """One connection."""

    def __init__(self, backend: JobsBackend, job_type: str | None, socket: StreamSocket) -> None:
        self._backend = backend
        self._engine = backend.engine
        self._job_type = job_type
        self._socket = socket
        self._ready = asyncio.Event()
        self._heard = backend.clock.now()
        self._unanswered = 0
        self._state = "asked"
        self._taking = False
        self._jobs: dict[TaskId, None] = {}
        self._sent_away = asyncio.Event()
        self._recalled = asyncio.Event()

    async def run(self) -> None:
        """Converse until one side ends it."""
        try:
            here = await self._admit()
        except Violation as wrong:
            self._socket.close(wrong.code, wrong.reason)
            return
        works = self._listen(here), self._deliver(here), self._beat(here), self._mind(), self._leave_when_sent_away()
        error = await race(*works)
        if self._backend.workers.is_kick(here.node.id, error):
            error = Violation(frames.NOT_WANTED, KICKED)
            self._sent_away.set()
        self._backend.workers.dismiss(here.number)
        if isinstance(error, _Silent):
            await give_up(self._backend, here, error.reason)
        elif self._socket.goodbye in _IN_ORDER or self._sent_away.is_set():
            await leave(self._backend, here)
        elif not self._socket.stopping and (error is None or isinstance(error, ClientGone | Violation)):
            await await_return(self._backend, here)
        self._socket.close(*self._explain(error))

    def _explain(self, error: BaseException | None) -> tuple[int, str]:
        if isinstance(error, Violation):
            return error.code, error.reason
        if error is None or isinstance(error, ClientGone):
            return frames.GOING_AWAY, "the server is stopping: connect again in a moment"
        self._backend.telemetry.event("worker_session_failed", error=name_fault(error))
        if isinstance(error, NodeGone):
            return _COME_BACK, "the server lost its hold on this worker: connect again"
        return frames.BROKEN, "the server cannot go on now: connect again later"

    async def _admit(self) -> Here:
        """Who it is, within the grace; one that may not come in is told at the end of that."""
        grace = self._backend.plan.pace.grace
        patience = asyncio.ensure_future(asyncio.sleep(grace / 1000))
        greeting = asyncio.ensure_future(self._greet())
        await asyncio.wait([patience, greeting], return_when=asyncio.FIRST_COMPLETED)
        if not greeting.done():
            greeting.cancel()
            await asyncio.wait([greeting])
            raise Violation(frames.NOT_WANTED, f"no registration within {grace} ms")
        said = greeting.result()
        grant = find_grant(self._backend, self._job_type, said.token)
        if self._backend.plan.authenticates and grant is None:
            self._backend.tell_refused(said.id, self._job_type, self._socket.peer)
            await patience
            raise Violation(frames.NOT_WANTED, "the token is not one of a worker for these jobs")
        patience.cancel()
        return await self._enrol(said, grant)

    async def _greet(self) -> second.Registration:
        if await self._socket.receive() is not Opcode.TEXT:
            raise Violation(frames.NOT_WANTED, "a worker registers before it says anything else")
        said = _read(await self._socket.text(self._backend.limits.field))
        if not isinstance(said, second.Registration):
            raise Violation(frames.NOT_WANTED, "a worker registers before it says anything else")
        return said

    async def _enrol(self, said: second.Registration, grant: Grant | None) -> Here:
        queue, limits = await self._backend.find_queue(self._job_type), self._backend.limits
        secret = self._backend.entropy.token(_TOKEN_BYTES).hex()
        node = await self._resume(said)
        if node is None:
            node = await register_worker(self._engine, queue, Entry(said.id, secret, limits.polled, said.slots))
        else:
            secret = str(said.session).partition(".")[2]
        now = self._backend.clock.wall()
        seen = Seen(said.id, said.name, self._job_type, self._socket.peer, node.id, node.name, self._state, now, now)
        reins = Reins(lambda task: self._recalled.set(), self._sent_away.set)
        number = self._backend.workers.enrol(seen, reins)
        self._backend.tell_joined(seen)
        session = second.Session(node.id, secret).encode()
        await self._say(code=Code.WELCOME, session=session, seconds=limits.back / 1000)
        await self._socket.send_text(ASK_STATUS)
        return Here(number, said.id, queue, node, secret, grant, said.urls)

    async def _resume(self, said: second.Registration) -> Node | None:
        """The node that it was before the connection was lost, if that is still there.

        What the store thinks that it has, and it says that it has not, was lost on the way to it: that goes back.
        """
        session = second.read_session(said.session)
        if session is None:
            return None
        try:
            node = (await self._engine.nodes.beat(session.node, session.secret)).node
        except (NodeGone, NodeNotFound):
            return None
        for task in (await self._engine.find(Query(holder=node.id, most=second.MOST_SLOTS))).tasks:
            if second.name_job(task.id, task.fence) in said.jobs:
                self._jobs[task.id] = None
            elif task.status in LEASED:
                await self._engine.release(Lease(task.id, task.fence, node.id))
        return node

    async def _listen(self, here: Here) -> None:
        while (opcode := await self._socket.receive()) is not None:
            if opcode is not Opcode.TEXT:
                raise Violation(frames.NOT_WANTED, "a result is announced before it comes: send code 5 first")
            message = _read(await self._socket.text(self._backend.limits.text))
            self._heard, self._unanswered = self._backend.clock.now(), 0
            await self._hear(here, message)
            self._note(here)

    def _note(self, here: Here) -> None:
        """Of several jobs the list of workers has the oldest."""
        state = Phase.WORKING if self._jobs else self._state
        self._backend.workers.note(here.number, state, next(iter(self._jobs), None))

    async def _hear(self, here: Here, message: second.Message) -> None:
        match message:
            case second.Registration():
                raise Violation(frames.NOT_WANTED, "a worker registers once")
            case Status(status):
                self._set_ready(status is WorkerStatus.READY)
            case second.Progress():
                await self._report(_read_job(message.job, here), message)
            case second.Failed():
                await self._fail(here, _read_job(message.job, here), message)
            case second.Result(job, chunks, upload):
                await self._accept(here, _read_job(job, here), chunks, upload)
            case second.UploadRequest(job):
                await self._offer(job)
            case _:
                assert_never(message)

    def _set_ready(self, is_ready: bool) -> None:
        self._state = "ready" if is_ready else "busy"
        if is_ready:
            self._ready.set()
        else:
            self._ready.clear()

    async def _report(self, lease: Lease, said: second.Progress) -> None:
        try:
            await self._engine.progress(lease, said.percent, said.info)
        except (StaleLease, TaskNotFound):
            await self._say(code=Code.CANCEL, job=second.name_job(lease.task, lease.fence))

    async def _fail(self, here: Here, lease: Lease, said: second.Failed) -> None:
        outcome = Fail(reason=said.info or "the worker says that it failed")
        await self._settle(here, lease, outcome, said.logs)

    async def _accept(self, here: Here, lease: Lease, chunks: int, upload: str | None) -> None:
        if upload is not None:
            return await self._adopt(here, lease, upload)
        result = await self._engine.keep(self._read_chunks(chunks))
        return await self._settle(here, lease, Succeed(result if isinstance(result, bytes) else None), result)

    async def _adopt(self, here: Here, lease: Lease, upload: str) -> None:
        """Take in a result that was sent past us. It is read here, and as long as that takes silence is our own."""
        self._taking = True
        try:
            result = await self._engine.contents.adopt(upload, self._backend.limits.payload)
        except (BadInput, NotFound) as error:
            outcome = Fail(reason=f"its result: {error.message}")
            return await self._tell_receipt(lease, await self._store(here, lease, outcome, None) or error.message)
        finally:
            self._taking, self._heard = False, self._backend.clock.now()
        return await self._settle(here, lease, Succeed(None), result)

    async def _offer(self, job: str) -> None:
        name, url, seconds = await self._engine.contents.offer() or (None, None, None)
        await self._say(code=Code.UPLOAD, job=job, upload=name, url=url, seconds=seconds)

    async def _read_chunks(self, chunks: int) -> AsyncGenerator[bytes, None]:
        for _ in range(chunks):
            if await self._socket.receive() is not Opcode.BINARY:
                raise (
                    ClientGone
                    if self._socket.goodbye is not None
                    else Violation(frames.NOT_WANTED, "a result was announced, and something else came")
                )
            async for piece in self._socket.pieces():
                self._heard = self._backend.clock.now()
                yield piece

    async def _settle(self, here: Here, lease: Lease, outcome: Outcome, beside: str | bytes | BlobRef | None) -> None:
        """Store how an attempt ended, with what belongs to it, and tell the worker whether that was done."""
        await self._tell_receipt(lease, await self._store(here, lease, outcome, beside))

    async def _tell_receipt(self, lease: Lease, refused: str | None) -> None:
        job = second.name_job(lease.task, lease.fence)
        await self._say(code=Code.RECEIPT, job=job, accepted=refused is None, reason=refused)

    async def _store(
        self, here: Here, lease: Lease, outcome: Outcome, beside: str | bytes | BlobRef | None
    ) -> str | None:
        """None if it is stored, else why not."""
        if isinstance(outcome, Fail):
            # Before its slot is free: what it would claim then is given back.
            self._backend.workers.tally(here.identity, succeeded=False)
        try:
            if isinstance(beside, BlobRef):
                await self._engine.put_data(lease, "result", beside)
            elif isinstance(beside, str):
                await self._engine.append_output(lease, LOGS, 0, beside.encode())
            await self._engine.settle_by_lease(lease, outcome)
        except (StaleLease, TaskNotFound) as error:
            return error.message
        finally:
            self._jobs.pop(lease.task, None)
        if isinstance(outcome, Succeed):
            self._backend.workers.tally(here.identity, succeeded=True)
        return None

    async def _deliver(self, here: Here) -> None:
        """Send jobs for as long as the worker wants some; how many it may have, the store says."""
        while True:
            await self._ready.wait()
            await self._backend.workers.rest(here.identity)
            for job in await self._engine.wait_claim(Claim(here.node.id, (here.queue.id,)), _LOOK_AGAIN):
                # It may have failed since this claim was made.
                if self._ready.is_set() and not self._backend.workers.find_rest(here.identity):
                    self._jobs[job.id] = None
                    self._note(here)
                    await self._send_job(job, here.urls)
                else:
                    await self._engine.release(job.lease)

    async def _send_job(self, job: Claimed, by_url: bool) -> None:
        told = {"code": Code.JOB, "job": second.name_job(job.id, job.fence), "id": self._backend.say_guid(job.id)}
        try:
            await self._send_payload(await self._find_payload(job), told, by_url)
        except GangerError as error:
            # The worker may have a part of it, and the rest cannot be read.
            await self._engine.settle_by_lease(job.lease, judge_unreadable(error))
            raise
        await self._engine.start([job.lease])

    async def _find_payload(self, job: Claimed) -> Content:
        if job.spec is not None:
            return Content(len(job.spec), job.spec)
        return await self._engine.contents.find(job.id, "spec")

    async def _send_payload(self, payload: Content, told: dict[str, object], by_url: bool) -> None:
        url = await self._engine.contents.share(payload) if by_url else None
        if url is not None and payload.blob is not None:
            return await self._say(**told, size=payload.size, url=url, sha256=payload.blob.hash)
        await self._say(**told, size=payload.size)
        return await self._socket.send_binary(self._engine.contents.pour(payload))

    async def _beat(self, here: Here) -> None:
        """Keep the leases, and cancel what is to be killed."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._backend.limits.beat):
                    await self._recalled.wait()
            self._recalled.clear()
            if here.grant is not None and not self._backend.keeper.holds(here.grant):
                raise Violation(frames.NOT_WANTED, "the token was revoked, or has expired")
            try:
                kills = (await self._engine.nodes.beat(here.node.id, here.secret)).kills
                for task in await self._engine.tasks(kills):
                    if task is not None and task.holder == here.node.id:
                        await self._cancel(Lease(task.id, task.fence, here.node.id))
            except StoreError as error:
                self._backend.telemetry.event("worker_not_renewed", worker=here.identity, error=error.code)

    async def _cancel(self, lease: Lease) -> None:
        await self._say(code=Code.CANCEL, job=second.name_job(lease.task, lease.fence))
        self._jobs.pop(lease.task, None)
        try:
            await self._engine.settle_by_lease(lease, Killed("killed"))
        except (StaleLease, TaskNotFound) as error:
            # It ended by itself meanwhile.
            self._backend.telemetry.event("kill_came_late", task=int(lease.task), error=error.code)

    async def _mind(self) -> None:
        """Ask one that is silent, and give up one that does not answer."""
        pace = self._backend.plan.pace
        while True:
            await asyncio.sleep(pace.every / 1000)
            if self._taking:
                continue
            silent = self._backend.clock.now() - self._heard
            if self._unanswered >= 2 and silent >= pace.silence:
                raise _Silent(frames.NOT_WANTED, f"no answer to {self._unanswered} status requests")
            if silent >= pace.every:
                self._unanswered += 1
                await self._socket.send_text(ASK_STATUS)

    async def _leave_when_sent_away(self) -> None:
        await self._sent_away.wait()
        raise Violation(frames.NOT_WANTED, KICKED)

    async def _say(self, **fields: object) -> None:
        await self._socket.send_text(_encode(fields))


def _read(text: bytes) -> second.Message:
    try:
        return second.read_message(text)
    except BadInput as error:
        raise Violation(frames.NOT_WANTED, error.message) from None


def _read_job(text: str, here: Here) -> Lease:
    try:
        return second.read_job(text, here.node.id)
    except BadInput as error:
        raise Violation(frames.NOT_WANTED, error.message) from None
