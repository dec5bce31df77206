"""Workers without websockets: a POST takes a job, as soon as there is one, and a PUT answers it.

Nothing is kept here between two requests but that it was heard. A worker is a node from when it asks until it has
answered. Who it is, and which attempt it speaks for, is in the lease that it is given with the job and names with each
of its requests: node, task, fence, and the secret of the node. The store checks all of them. Each request is a sign of
life; a worker that gives none for a minute loses its job, which is then counted as a crash if the worker had told any
progress. While its bytes are on their way, in either direction, its lease is renewed for it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.errors import BadInput, GangerError, StaleLease, TaskNotFound
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.lease import Lease
from ganger.core.node import Node
from ganger.core.outcome import Fail, Killed, Outcome, Release, Succeed
from ganger.core.queue import Queue
from ganger.core.task import Claimed
from ganger.engine.blob import BlobRef
from ganger.engine.store import Claim
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import BYTES, Answer, Header, Reply, Streamed, answer_json
from ganger.faces.http.request import Request
from ganger.faces.jobs.backend import JobsBackend
from ganger.faces.jobs.content import judge_unreadable
from ganger.faces.jobs.enrolling import Entry, read_identity, register_worker
from ganger.faces.jobs.registry import LOGS, read_flag, read_seconds
from ganger.faces.jobs.workers import WAITING, Reins, Seen
from ganger.wire.jobs.machine import Phase
from ganger.wire.jobs.messages import Failed, Progress, Registration, convert
from ganger.wire.jobs.shapes import UploadTold
from ganger.wire.unreadable import UNREADABLE

TAKE_PARAMETERS: Final = frozenset({"id", "urls", "wait"})
ANSWER_PARAMETERS: Final = frozenset({"upload"})
_LONGEST_WAIT: Final = 45.0
"""Less than the lease of a worker that is waiting: nobody has to beat for it."""

_TOKEN_BYTES: Final = 16
_LARGEST: Final = 1 << 63


class Told(msgspec.Struct, frozen=True):
    """What a worker is told about its job: whether somebody wants it killed."""

    kill: bool


class _Session(NamedTuple):
    """Who a worker is, and for which attempt it speaks."""

    secret: str
    lease: Lease

    def encode(self) -> str:
        return f"{self.lease.holder}.{self.lease.task}.{self.lease.fence}.{self.secret}"


class Polling:
    """The endpoints under `/api/work`."""

    def __init__(self, backend: JobsBackend) -> None:
        self._backend = backend
        self._engine = backend.engine
        self._leaving: set[asyncio.Task[None]] = set()

    async def take(self, request: Request) -> Answer:
        """The payload of a job, with its lease in a header; 204 if there is none in the time that is waited."""
        job_type = request.values.get("job_type")
        name = self._backend.plan.types.name_queue(job_type)
        request.grant.demand(Need.WORK, name)
        said = convert({"name": "-", "id": request.query.get("id")}, Registration)
        seconds = read_seconds(request.query.get("wait", "0"), _LONGEST_WAIT)
        by_url = read_flag("urls", request.query.get("urls", "false"))
        if (rest := self._backend.workers.find_rest(said.id)) > seconds:
            await asyncio.sleep(seconds)
            return Reply(204)
        await asyncio.sleep(rest)
        queue = await self._backend.find_queue(job_type)
        secret = self._backend.entropy.token(_TOKEN_BYTES).hex()
        node = await self._register(queue, Entry(said.id, secret, self._backend.limits.polled))
        self._note(node, secret, job_type, None)
        try:
            claimed = await self._engine.wait_claim(Claim(node.id, (queue.id,)), seconds - rest)
        except BaseException:
            await asyncio.shield(self._leave(node.id, secret))
            raise
        if not claimed:
            await self._leave(node.id, secret)
            return Reply(204)
        self._note(node, secret, job_type, claimed[0].id)
        return await self._hand_over(claimed[0], secret, by_url)

    async def _register(self, queue: Queue, entry: Entry) -> Node:
        """Register a worker; one that has gone meanwhile leaves when that is done."""
        registering = asyncio.ensure_future(register_worker(self._engine, queue, entry))
        try:
            return await asyncio.shield(registering)
        except asyncio.CancelledError:
            self._later(self._leave_late(registering, entry.secret))
            raise

    async def _leave_late(self, registering: "asyncio.Future[Node]", secret: str) -> None:
        try:
            node = await registering
        except GangerError as error:
            self._backend.telemetry.event("worker_not_registered", error=error.code)
        else:
            await self._leave(node.id, secret)

    async def _hand_over(self, job: Claimed, secret: str, by_url: bool) -> Answer:
        lease = _Session(secret, job.lease).encode().encode()
        headers = ((b"x-job-lease", lease), (b"x-job-id", self._backend.say_guid(job.id).encode()))
        if job.spec is not None:
            return Reply(200, job.spec, BYTES, headers)
        try:
            content = await self._engine.contents.find(job.id, "spec")
            url = await self._engine.contents.share(content) if by_url else None
            if url is not None and content.blob is not None:
                return Reply(200, b"", BYTES, (*headers, *_tell_url(url, content.blob)))
            pieces = self._engine.contents.pour(content)
            first = await anext(pieces)
        except GangerError as error:
            await self._give_up(job, secret, judge_unreadable(error))
            raise
        more = (b"content-length", b"%d" % content.size)
        return Streamed(self._pour(job, secret, first, pieces), BYTES, (*headers, more))

    async def _pour(
        self, job: Claimed, secret: str, first: bytes, rest: AsyncGenerator[bytes, None]
    ) -> AsyncGenerator[bytes, None]:
        """The payload as fast as the worker takes it, which keeps its lease meanwhile; one that goes gives it back."""
        outcome: Outcome | None = Release()
        try:
            async with aclosing(rest), self._kept(job.lease.holder, secret):
                yield first
                async for piece in rest:
                    yield piece
            outcome = None
        except GangerError as error:
            outcome = judge_unreadable(error)
            raise
        finally:
            if outcome is not None:
                await self._give_up(job, secret, outcome)

    async def _give_up(self, job: Claimed, secret: str, outcome: Outcome) -> None:
        """The worker has not got all of the payload, and so nothing to do."""
        await self._engine.settle([(job, outcome)])
        await self._leave(job.lease.holder, secret)

    async def answer(self, request: Request) -> Answer:
        """The result of a job, or the name of its upload. StaleLease if the job is another's by now."""
        session = await self._open(request)
        async with self._kept(session.lease.holder, session.secret):
            result = await self._take_in(request)
        if isinstance(result, BlobRef):
            await self._engine.put_data(session.lease, "result", result)
        return await self._end(session, Succeed(result if isinstance(result, bytes) else None))

    async def _take_in(self, request: Request) -> bytes | BlobRef:
        most = self._backend.limits.payload
        if "upload" in request.query:
            return await self._engine.contents.adopt(request.query["upload"], most)
        return await self._engine.keep(request.pieces(most, self._backend.limits.idle))

    async def offer(self, request: Request) -> Answer:
        """Where the result may be sent, past this server."""
        await self._open(request)
        upload = await self._engine.contents.offer()
        return answer_json(UploadTold(*(upload or (None, None, None))))

    async def fail(self, request: Request) -> Answer:
        """The job failed: `info` and `logs`."""
        session, said = await self._open(request), convert(await _read(request), Failed)
        if said.logs:
            await self._engine.append_output(session.lease, LOGS, 0, said.logs.encode())
        return await self._end(session, Fail(reason=said.info or "the worker says that it failed"))

    async def report(self, request: Request) -> Answer:
        """How far the job is: `percent`, `info`, or both; an empty body is a sign of life."""
        session = await self._open(request)
        if fields := await _read(request):
            said = convert(fields, Progress)
            await self._engine.progress(session.lease, said.percent, said.info)
        await self._engine.start([session.lease])
        (task,) = await self._engine.tasks([session.lease.task])
        return answer_json(Told(task is None or task.kill))

    async def _open(self, request: Request) -> _Session:
        """Who speaks: the node's secret is checked, and its lease renewed, by a beat."""
        session = _read_session(request.values["lease"])
        (task,) = await self._engine.tasks([session.lease.task])
        if task is None:
            raise TaskNotFound("the job is not there any more")
        queue = (await self._engine.queues.get(task.queue)).name
        request.grant.demand(Need.WORK, queue)
        node = (await self._engine.nodes.beat(session.lease.holder, session.secret)).node
        if (task.holder, task.fence) != (session.lease.holder, session.lease.fence):
            raise StaleLease("the job is not this worker's any more", task=task.id)
        self._note(node, session.secret, self._backend.plan.types.read_queue(queue), task.id)
        return session

    def _note(self, node: Node, secret: str, job_type: str | None, job: TaskId | None) -> None:
        """Keep the list: it was heard. One that the list does not have took its job from a server before this one."""
        workers, now = self._backend.workers, self._backend.clock.wall()
        number = workers.find_number(node.id)
        if number is None:
            who = read_identity(node.name)
            seen = Seen(
                who, who, job_type, "", node.id, node.name, WAITING, node.since, now, lapse=self._backend.limits.polled
            )
            recall = partial(self._recall, node.id)
            number = workers.enrol(seen, Reins(recall, lambda: self._send_away(node.id, secret)))
        workers.note(number, WAITING if job is None else Phase.WORKING, job)

    def _recall(self, node: NodeId, task: TaskId) -> None:
        self._later(self._kill(node, task))

    async def _kill(self, node: NodeId, task: TaskId) -> None:
        """End a job that somebody wants killed, whatever its worker does: that hears of it with its next request."""
        (found,) = await self._engine.tasks([task])
        if found is None or found.holder != node:
            return
        try:
            await self._engine.settle_by_lease(Lease(task, found.fence, node), Killed("killed"))
        except (StaleLease, TaskNotFound) as error:
            # It ended by itself meanwhile.
            self._backend.telemetry.event("kill_came_late", task=int(task), error=error.code)

    def _send_away(self, node: NodeId, secret: str) -> None:
        self._later(self._leave(node, secret))

    def _later(self, leave: Coroutine[Any, Any, None]) -> None:
        leaving = asyncio.ensure_future(leave)
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    @asynccontextmanager
    async def _kept(self, node: NodeId, secret: str) -> AsyncIterator[None]:
        """Renew the lease of one that cannot say anything because its bytes are on their way."""
        beating = asyncio.ensure_future(self._beat(node, secret))
        try:
            yield
        finally:
            beating.cancel()
            await asyncio.wait([beating])

    async def _beat(self, node: NodeId, secret: str) -> None:
        while True:
            await asyncio.sleep(self._backend.limits.beat)
            try:
                await self._engine.nodes.beat(node, secret)
            except GangerError as error:
                # What comes of it is told when the worker's answer is written, by its fence.
                self._backend.telemetry.event("worker_not_renewed", node=int(node), error=error.code)

    async def _end(self, session: _Session, outcome: Outcome) -> Answer:
        await self._engine.settle_by_lease(session.lease, outcome)
        number = self._backend.workers.find_number(session.lease.holder)
        if number is not None:
            self._backend.workers.tally_number(number, succeeded=isinstance(outcome, Succeed))
        await self._leave(session.lease.holder, session.secret)
        return Reply(204)

    async def _leave(self, node: NodeId, secret: str) -> None:
        number = self._backend.workers.find_number(node)
        if number is not None:
            self._backend.workers.dismiss(number)
        try:
            await self._engine.nodes.leave(node, secret)
        except GangerError as error:
            # Its registration ends by itself.
            self._backend.telemetry.event("worker_not_left", node=int(node), error=error.code)


def _tell_url(url: str, blob: BlobRef) -> tuple[Header, ...]:
    return (b"x-job-url", url.encode()), (b"x-job-size", b"%d" % blob.size), (b"x-job-sha256", blob.hash.encode())


def _read_session(text: str) -> _Session:
    numbers, secret = text.split(".")[:3], text.split(".")[3:]
    if len(numbers) != 3 or len(secret) != 1 or not all(map(_is_number, numbers)):
        raise BadInput("this is no lease: send back what came with the job as X-Job-Lease", field="lease")
    node, task, fence = map(int, numbers)
    return _Session(secret[0], Lease(TaskId(task), Fence(fence), NodeId(node)))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and 0 < int(text) < _LARGEST


async def _read(request: Request) -> dict[str, Any]:
    """The fields of a message, whose code the address says; none if there is no body."""
    try:
        return msgspec.json.decode(await request.body() or b"{}", type=dict[str, Any])
    except UNREADABLE:
        raise BadInput("the body is a JSON object") from None
