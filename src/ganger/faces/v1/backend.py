"""What the endpoints of `/v1` work with."""

import asyncio
from collections.abc import Sequence, Set
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final

from ganger.core.clock import Entropy
from ganger.core.errors import NotAllowed, TaskNotFound
from ganger.core.ids import QueueId, TaskId
from ganger.core.lease import Lease
from ganger.core.queue import Queue
from ganger.core.schedule import QUEUE as SCHEDULES
from ganger.core.state import LEASED
from ganger.core.task import NewTask, Task
from ganger.engine.engine import Engine
from ganger.engine.schedules import find_work
from ganger.engine.store import Edit, Query
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.limits import HttpLimits
from ganger.faces.http.news import News
from ganger.faces.http.request import Request
from ganger.node.outbound import Rule
from ganger.runtime.entropy import SystemEntropy
from ganger.runtime.telemetry import SILENT, Telemetry
from ganger.wire.references import list_references
from ganger.wire.v1.answers import Names
from ganger.wire.v1.requests import DEFAULT_QUEUE
from ganger.wire.v1.words import read_id

_MOST: Final = 10_000
_HEARING: Final = 0.05
"""Seconds: hardly longer than any other request takes."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The engine behind the door. `tag` is the store's own number. `writing` lets one change of a value be whole.

    `outbound` says which webhooks may be told. `traces`: tasks keep the trace that they were added in.
    """

    engine: Engine
    news: News
    limits: HttpLimits
    tag: int
    outbound: Rule = field(default_factory=Rule)
    traces: bool = False
    telemetry: Telemetry = SILENT
    entropy: Entropy = field(default_factory=SystemEntropy)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find_task(self, task: TaskId) -> Task:
        (found,) = await self.engine.tasks([task])
        if found is None:
            raise TaskNotFound(f"there is no task {task}", task=task)
        return found

    async def hear(self, task: Task, stream: str, start: int) -> None:
        """Have a task that runs send what it writes, as for a follower, and wait for a moment if nothing is there.

        It goes on for some seconds: whoever comes again and again gets what was written in between.
        """
        if task.status not in LEASED or (await self.engine.read_output(task.id, stream, start, 1, task.fence)).body:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEARING):
                async with aclosing(self.engine.follow_output(task.id, (stream,), start, task.fence)) as heard:
                    await anext(heard, None)

    async def check_all(self, ids: list[TaskId]) -> None:
        """TaskNotFound names those that are not there."""
        found = await self.engine.tasks(ids)
        missing = [task for task, there in zip(ids, found, strict=True) if there is None]
        if missing:
            raise TaskNotFound(f"there is no task {missing[0]}", tasks=[int(task) for task in missing[:100]])

    async def name_queues(self) -> Names:
        return {queue.id: queue.name for queue in await self.engine.queues.all()}

    async def find_queue(self, name: str, grant: Grant) -> Queue:
        """The queue of this name; the default one is made if it is missing."""
        if name == DEFAULT_QUEUE:
            return await self.engine.queues.ensure(name, by=sign(grant))
        return await self.engine.queues.named(name)

    async def demand_submit(self, grant: Grant, queue: QueueId) -> None:
        """NotAllowed unless the grant may make and change tasks of this queue. An attempt may, in its family."""
        if grant.lease is None:
            grant.demand(Need.SUBMIT, (await self.engine.queues.get(queue)).name)

    async def demand_new(self, grant: Grant, tasks: Sequence[NewTask]) -> None:
        """NotAllowed unless the grant may make these, and make them wait for those that they name.

        Whoever may not look at a task may not wait for it either: so it would learn how that ended.
        """
        if grant.lease is not None:
            return
        for queue in {task.queue for task in tasks}:
            await self.demand_submit(grant, queue)
        for task in tasks:
            await self._demand_spec(grant, task.queue, task.kind, task.spec)
        await self._demand_named(grant, {edge.parent for task in tasks for edge in task.parents}, Need.READ)
        await self._demand_keys(grant, [task.key for task in tasks if task.key is not None])
        changed = {task.group for task in tasks} | {task.retry_of for task in tasks if task.retry_of is not None}
        await self._demand_named(grant, changed)

    async def _demand_keys(self, grant: Grant, keys: Sequence[str]) -> None:
        """A key may give the task that has it: NotAllowed if that is of a queue that the grant is not for."""
        for key in keys if grant.fills() is not None and not grant.covers(Need.READ) else ():
            for task in (await self.engine.find(Query(key=key, most=1))).tasks:
                await self.demand_submit(grant, task.queue)

    async def demand_again(self, grant: Grant, task: Task) -> None:
        """NotAllowed unless the grant may make another one like this."""
        spec = await self.engine.read_data(task.id, "spec", 0, self.engine.limits.payload)
        await self.demand_new(grant, [NewTask(task.queue, task.kind, spec.body)])

    async def _demand_spec(self, grant: Grant, queue: QueueId, kind: str, spec: bytes) -> None:
        """A schedule fills the queue that it names, and a function is given the results that it names."""
        work = find_work(spec) if (await self.engine.queues.get(queue)).name == SCHEDULES else None
        if work is not None:
            await self.demand_submit(grant, QueueId(work.queue))
            kind, spec = work.kind, work.spec
        await self._demand_named(grant, list_references(kind, spec), Need.READ)

    async def _demand_named(self, grant: Grant, ids: Set[int], instead: Need | None = None) -> None:
        """NotAllowed unless the grant may submit to the queues of these tasks; or has that other scope."""
        known = [TaskId(one) for one in ids if one > 0]
        if not known or (instead is not None and grant.covers(instead)):
            return
        for queue in {task.queue for task in await self.engine.tasks(known) if task is not None}:
            await self.demand_submit(grant, queue)

    async def reach(self, request: Request) -> TaskId:
        """The task that a path names; NotAllowed if an attempt names one that is not of its family."""
        task, lease = read_id(request.values["id"]), request.grant.lease
        if lease is not None and task not in await self._list_family(lease):
            raise NotAllowed(f"task {task} is neither parent nor child of task {lease.task}", task=task)
        return task

    async def _list_family(self, lease: Lease) -> set[TaskId]:
        family = await self.engine.family(lease, _MOST)
        return {family.itself.id, *(one.task.id for one in (*family.parents, *family.children))}

    async def edit(self, edits: list[Edit], grant: Grant) -> None:
        """Change tasks in the name of the grant: an attempt does it under its lease. NotAllowed if it may not."""
        if grant.attempt is not None:
            await self.engine.edit(edits, under=grant.attempt)
            return
        if not all(edit.remove for edit in edits):
            await self._demand_edits(grant, edits)
        await self.engine.edit(edits, by=sign(grant))

    async def _demand_edits(self, grant: Grant, edits: list[Edit]) -> None:
        """Those that are not there the engine refuses."""
        await self._demand_named(grant, {edit.task for edit in edits})
        await self._demand_named(grant, {edit.link[0] for edit in edits if edit.link is not None}, Need.READ)
        specs = {edit.task: edit.change.spec for edit in edits if edit.change is not None}
        for task in await self.engine.tasks(list(specs)):
            if task is not None and (spec := specs[task.id]) is not None:
                await self._demand_spec(grant, task.queue, task.kind, spec)


def sign(grant: Grant) -> str:
    """Who it was, in the audit log."""
    return f"token {grant.name}"
