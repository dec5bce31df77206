"""What the endpoints of `/v1` work with."""

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Final

from ganger.core.clock import Entropy
from ganger.core.errors import NotAllowed, TaskNotFound
from ganger.core.ids import QueueId, TaskId
from ganger.core.lease import Lease
from ganger.core.queue import Queue
from ganger.core.state import LEASED
from ganger.core.task import Task
from ganger.engine.engine import Engine
from ganger.engine.store import Edit
from ganger.faces.http.grants import Grant, Need
from ganger.faces.http.limits import HttpLimits
from ganger.faces.http.news import News
from ganger.faces.http.request import Request
from ganger.node.outbound import Rule
from ganger.runtime.entropy import SystemEntropy
from ganger.wire.v1.answers import Names
from ganger.wire.v1.requests import DEFAULT_QUEUE
from ganger.wire.v1.words import read_id

_MOST: Final = 10_000
_HEARING: Final = 0.05
"""Seconds: hardly longer than any other request takes."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The engine behind the door. `tag` is the store's own number. `writing` lets one change of a value be whole.

    `outbound` says which webhooks may be told. `traces`: nodes keep the trace that they were added in.
    """

    engine: Engine
    news: News
    limits: HttpLimits
    tag: int
    outbound: Rule = field(default_factory=Rule)
    traces: bool = False
    entropy: Entropy = field(default_factory=SystemEntropy)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def find_task(self, task: TaskId) -> Task:
        (found,) = await self.engine.tasks([task])
        if found is None:
            raise TaskNotFound(f"there is no node {task}", task=task)
        return found

    async def hear(self, task: Task, stream: str, start: int) -> None:
        """Have a node that runs send what it writes, as for a follower, and wait for a moment if nothing is there.

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
            raise TaskNotFound(f"there is no node {missing[0]}", tasks=[int(task) for task in missing[:100]])

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

    async def reach(self, request: Request) -> TaskId:
        """The node that a path names; NotAllowed if an attempt names one that is not of its family."""
        task, lease = read_id(request.values["id"]), request.grant.lease
        if lease is not None and task not in await self._list_family(lease):
            raise NotAllowed(f"node {task} is neither parent nor child of node {lease.task}", task=task)
        return task

    async def _list_family(self, lease: Lease) -> set[TaskId]:
        family = await self.engine.family(lease, _MOST)
        return {family.itself.id, *(one.task.id for one in (*family.parents, *family.children))}

    async def edit(self, edits: list[Edit], grant: Grant) -> None:
        """Change nodes in the name of the grant: an attempt does it under its lease."""
        if grant.lease is not None:
            await self.engine.edit(edits, under=grant.lease)
        else:
            await self.engine.edit(edits, by=sign(grant))


def sign(grant: Grant) -> str:
    """Who it was, in the audit log."""
    return f"token {grant.name}"
