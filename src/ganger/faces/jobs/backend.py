"""What the jobs door works with."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from ganger.core.clock import Clock, Entropy
from ganger.core.errors import TaskNotFound
from ganger.core.ids import QueueId, TaskId, to_uuid
from ganger.core.queue import Queue
from ganger.core.state import Status
from ganger.core.task import SOURCE, SUCCESSOR, Kind, Task
from ganger.engine.engine import Engine
from ganger.engine.store import Query
from ganger.faces.http.grants import Grant, Keeper
from ganger.faces.jobs.storing import Storing
from ganger.faces.jobs.types import JobPolicy, JobTypes, ensure_queue
from ganger.faces.jobs.workers import NODE_PREFIX, Seen, Workers
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.wire.jobs.machine import Pace
from ganger.wire.jobs.shapes import Job
from ganger.wire.jobs.words import read_guid, say_priority, say_status


class JobLimits(NamedTuple):
    """Sizes are bytes, times seconds.

    `payload` is the largest payload, `idle` how long one may be on its way without a byte, `field` the largest of the
    other fields of a form. `frame` and `text` bound what comes over a websocket; a result has any number of frames.
    `lease` (ms) is how long the job of a worker waits for it when this server is gone, `beat` how often it is renewed.
    `polled` (ms) is how long a worker without a websocket may be silent; the jobs of one of protocol 2 wait for it so
    long when this server is gone, and for `back` (ms) when its connection is lost. `killing` is how long a delete waits
    for a running job.
    """

    payload: int = 64 << 30
    idle: float = 30.0
    field: int = 64 << 10
    frame: int = 64 << 30
    text: int = 16 << 20
    page: int = 1_000
    wait: float = 300.0
    lease: int = 15_000
    beat: float = 5.0
    polled: int = 60_000
    back: int = 10_000
    killing: float = 10.0


class JobsPlan(NamedTuple):
    """What was set: the types, how jobs are kept, and what is asked of workers. `authenticates`: they need a token."""

    types: JobTypes
    policy: JobPolicy = JobPolicy()
    pace: Pace = Pace()
    limits: JobLimits = JobLimits()
    authenticates: bool = True


@dataclass(frozen=True, slots=True)
class JobsBackend:
    """The engine behind the door. `tag` is the store's own number, which is a half of each GUID."""

    engine: Engine
    clock: Clock
    entropy: Entropy
    keeper: Keeper
    tag: int
    workers: Workers
    plan: JobsPlan
    storing: Storing
    telemetry: Telemetry = SILENT

    @property
    def limits(self) -> JobLimits:
        return self.plan.limits

    async def find_queue(self, job_type: str | None) -> Queue:
        """The queue of a type; NotFound if there is no such type."""
        name = self.plan.types.name_queue(job_type)
        found = self.engine.queues.peek_named(name)
        return found or await ensure_queue(self.engine, name, self.plan.policy)

    async def list_queues(self) -> dict[QueueId, str | None]:
        """The queues of jobs, with their types."""
        types = self.plan.types
        return {
            queue.id: types.read_queue(queue.name)
            for queue in await self.engine.queues.all()
            if types.has_queue(queue.name)
        }

    async def find_job(self, key: str) -> Task:
        """The job with this key or GUID; TaskNotFound if there is none."""
        found = await self._look_up(key)
        if found is None or found.kind != Kind.PAYLOAD or found.queue not in await self.list_queues():
            raise TaskNotFound(f"there is no job {key!r:.80}", key=key[:200])
        return found

    async def _look_up(self, key: str) -> Task | None:
        if not key.isprintable():
            # No key is so, and not every store can be asked for it.
            return None
        number = read_guid(self.tag, key)
        if number is not None:
            return (await self.engine.tasks([number]))[0]
        return next(iter((await self.engine.find(Query(key=key, most=1))).tasks), None)

    def tell_joined(self, worker: Seen) -> None:
        """Log that a worker came."""
        self.telemetry.event("worker_joined", worker=worker.identity, called=worker.name, address=worker.address)

    def tell_refused(self, identity: str, job_type: str | None, address: str) -> None:
        """Log that a worker was not let in."""
        queue = self.plan.types.name_queue(job_type)
        self.telemetry.event("worker_refused", worker=identity, queue=queue, address=address)

    async def show(self, tasks: list[Task]) -> list[Job]:
        queues = await self.list_queues()
        return [await self._tell(task, queues.get(task.queue)) for task in tasks]

    async def _tell(self, task: Task, job_type: str | None) -> Job:
        job = self._show(task, job_type, await self._find_solver(task))
        becomes = self.plan.types.becomes
        is_next = job_type is not None and job_type in becomes.values()
        source = await self._read_link(task, SOURCE) if is_next else None
        leads_on = task.status == Status.SUCCEEDED and becomes.get(job_type or "") is not None
        successor = await self._read_link(task, SUCCESSOR) if leads_on else None
        return msgspec.structs.replace(job, source=source, successor=successor)

    async def _read_link(self, task: Task, key: str) -> str | None:
        found = (await self.engine.read_data(task.id, key, 0, 20)).body
        return self.say_guid(TaskId(int(found))) if found.isdigit() else None

    async def _find_solver(self, task: Task) -> str | None:
        """The name of the worker that has the job, or that has solved it."""
        if task.status != Status.SUCCEEDED:
            return self.workers.name_holder(task.holder)
        attempts = (await self.engine.look(task.id)).attempts
        if not attempts:
            return None
        node = attempts[-1].holder
        return self.workers.name_node(node) or node.removeprefix(NODE_PREFIX)

    def say_guid(self, task: TaskId) -> str:
        return str(to_uuid(self.tag, task))

    def _show(self, task: Task, job_type: str | None, worker: str | None) -> Job:
        guid = self.say_guid(task.id)
        return Job(
            guid, task.key or guid, job_type, say_status(task.status), say_priority(task.priority), task.description,
            task.batch, task.spec_size, say_time(task.created), _say_time(task.started), _say_time(task.ended),
            task.percent, task.info, None if task.status == Status.SUCCEEDED else task.reason, worker,
            task.attempts, task.crashes,
        )  # fmt: skip


def say_time(wall: int) -> str:
    """A time as people and programs read it: UTC, to the millisecond."""
    return datetime.fromtimestamp(wall / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _say_time(wall: int | None) -> str | None:
    return None if wall is None else say_time(wall)


def sign(grant: Grant) -> str:
    """Who it was, in the audit log."""
    return f"token {grant.name}"
