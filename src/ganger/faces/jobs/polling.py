"""Workers without websockets: a POST takes a job, as soon as there is one, and a PUT answers it.

Nothing is kept here between two requests. A worker is a node from when it asks until it has answered. Who it is, and
which attempt it speaks for, is in the lease that it is given with the job and names with each of its requests: node,
task, fence, and the secret of the node. The store checks all of them. Each request is a sign of life; a worker that
gives none for a minute loses its job, which is then counted as a crash if the worker had told any progress.
"""

import asyncio
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.errors import BadInput, GangerError, StaleLease, TaskNotFound
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.lease import Lease
from ganger.core.outcome import Fail, Outcome, Succeed
from ganger.core.task import Claimed
from ganger.engine.blob import BlobRef
from ganger.engine.store import Claim
from ganger.faces.http.grants import Need
from ganger.faces.http.reply import BYTES, Answer, Reply, Streamed, answer_json
from ganger.faces.http.request import Request
from ganger.faces.jobs.backend import JobsBackend
from ganger.faces.jobs.content import pour
from ganger.faces.jobs.enrolling import Entry, register_worker
from ganger.faces.jobs.registry import LOGS, read_seconds
from ganger.wire.jobs.messages import Failed, Progress, Registration, convert

TAKE_PARAMETERS: Final = frozenset({"id", "wait"})
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

    async def take(self, request: Request) -> Answer:
        """The payload of a job, with its lease in a header; 204 if there is none in the time that is waited."""
        job_type = request.values.get("job_type")
        name = self._backend.plan.types.name_queue(job_type)
        request.grant.demand(Need.WORK, name)
        said = convert({"name": "-", "id": request.query.get("id")}, Registration)
        seconds = read_seconds(request.query.get("wait", "0"), _LONGEST_WAIT)
        queue = await self._backend.find_queue(job_type)
        secret = self._backend.entropy.token(_TOKEN_BYTES).hex()
        node = await register_worker(self._engine, queue, Entry(said.id, secret, self._backend.limits.polled))
        try:
            claimed = await self._engine.wait_claim(Claim(node.id, (queue.id,)), seconds)
        except BaseException:
            await asyncio.shield(self._leave(node.id, secret))
            raise
        if not claimed:
            await self._leave(node.id, secret)
            return Reply(204)
        return await self._hand_over(claimed[0], secret)

    async def _hand_over(self, job: Claimed, secret: str) -> Answer:
        lease = _Session(secret, job.lease).encode().encode()
        headers = ((b"x-job-lease", lease), (b"x-job-id", self._backend.say_guid(job.id).encode()))
        if job.spec is not None:
            return Reply(200, job.spec, BYTES, headers)
        return Streamed(pour(self._engine, job.id, "spec", self._backend.limits.piece), BYTES, headers)

    async def answer(self, request: Request) -> Answer:
        """The result of a job. StaleLease if the job is another's by now."""
        session = await self._open(request)
        body = request.pieces(self._backend.limits.payload, self._backend.limits.idle)
        result = await self._engine.keep(body)
        if isinstance(result, BlobRef):
            await self._engine.put_data(session.lease, "result", result)
        return await self._end(session, Succeed(result if isinstance(result, bytes) else None))

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
        request.grant.demand(Need.WORK, (await self._engine.queues.get(task.queue)).name)
        await self._engine.nodes.beat(session.lease.holder, session.secret)
        if (task.holder, task.fence) != (session.lease.holder, session.lease.fence):
            raise StaleLease("the job is not this worker's any more", task=task.id)
        return session

    async def _end(self, session: _Session, outcome: Outcome) -> Answer:
        await self._engine.settle_by_lease(session.lease, outcome)
        await self._leave(session.lease.holder, session.secret)
        return Reply(204)

    async def _leave(self, node: NodeId, secret: str) -> None:
        try:
            await self._engine.nodes.leave(node, secret)
        except GangerError as error:
            # Its registration ends by itself.
            self._backend.telemetry.event("worker_not_left", node=int(node), error=error.code)


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
    except msgspec.MsgspecError:
        raise BadInput("the body is a JSON object") from None
