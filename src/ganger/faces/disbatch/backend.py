"""What the Disbatch door works with."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from ganger.core.clock import Clock
from ganger.core.errors import BadInput, NodeNotFound, QueueNotFound, TaskNotFound
from ganger.core.ids import NodeId, QueueId
from ganger.core.node import Node
from ganger.core.queue import Counts, Queue
from ganger.core.state import is_final
from ganger.core.task import Task
from ganger.engine.engine import Engine
from ganger.faces.disbatch.faces import Faces
from ganger.faces.http.grants import Grant
from ganger.wire.disbatch.words import looks_like_id

DEMO: Final = "Disbatch::Plugin::Demo"


class DoorLimits(NamedTuple):
    """`page` tasks are told at once, `scan` looked at for one question that no index answers.

    `inline` is how many bytes of each stream are told without being asked for, `answer` how many an answer has.
    `documents` of a collection become tasks by one request.
    """

    page: int = 1_000
    scan: int = 10_000
    inline: int = 64 << 10
    answer: int = 16 << 20
    documents: int = 100_000


class Collections(Protocol):
    """The collections of a database that has some, for tasks that are made from its documents."""

    def find(
        self, collection: str, filter_: Mapping[str, Any], fields: Sequence[str]
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        """The documents that match, with these fields, as JSON can say them. BadInput: it is no filter."""
        ...


PLAIN_LIMITS: Final = DoorLimits()


@dataclass(frozen=True, slots=True)
class DisbatchBackend:
    """The engine behind the door. `plugins` are those that queues may be made with; `database` is the store's name."""

    engine: Engine
    clock: Clock
    faces: Faces
    plugins: tuple[str, ...] = (DEMO,)
    database: str = ""
    version: str = ""
    collections: Collections | None = None
    limits: DoorLimits = PLAIN_LIMITS

    async def list_plugins(self) -> list[str]:
        """What queues may name: what was set, and what a queue names already."""
        used = {queue.policy.plugin for queue in await self.engine.queues.all()} - {None}
        return sorted({*self.plugins, *(name for name in used if name is not None)})

    async def find_queue(self, text: str) -> Queue:
        """The queue with this id or name; QueueNotFound, QueueAmbiguous."""
        try:
            if not looks_like_id(text):
                return await self.engine.queues.named(text)
            known = {face: queue for queue, face in (await self.faces.name_queues()).items()}
            return await self.engine.queues.get(known.get(text, QueueId(0)))
        except QueueNotFound:
            raise QueueNotFound("queue not found", queue=text[:200]) from None

    async def count(self) -> dict[QueueId, Counts]:
        counts, _ = await self.engine.counts()
        return {each.queue: each for each in counts}

    async def list_nodes(self) -> list[Node]:
        """The newest registration of each name, and nodes of other makes, by name."""
        newest = {node.name: node for node in await self.engine.nodes.strangers()}
        for node in sorted(await self.engine.nodes.all(), key=lambda one: one.id):
            newest[node.name] = node
        return [newest[name] for name in sorted(newest)]

    async def name_node(self, task: Task) -> str | None:
        """Where a task runs or ran last; None if nobody has claimed it."""
        if task.holder is not None:
            return (await self._name_nodes()).get(task.holder)
        attempts = (await self.engine.look(task.id, 1)).attempts if is_final(task.status) else []
        if attempts:
            return attempts[-1].holder
        return await self.engine.nodes.name_holder(task)

    async def _name_nodes(self) -> dict[NodeId, str]:
        return {node.id: node.name for node in await self.engine.nodes.all()}

    async def find_node(self, text: str) -> Node:
        """The node with this id or name; NodeNotFound."""
        faces = await self.faces.name_nodes()
        for node in await self.list_nodes():
            if text == (faces.get(node.name) if looks_like_id(text) else node.name):
                return node
        raise NodeNotFound(f"Could not get node {text:.200}: there is none", node=text[:200])

    async def find_task(self, face: str) -> Task:
        """The task with this id; TaskNotFound."""
        number = await self.faces.find_task(face) if looks_like_id(face) else None
        found = None if number is None else (await self.engine.tasks([number]))[0]
        if found is None or await self.faces.name_tasks([found]) != [face]:
            raise TaskNotFound(f"no task with id {face:.200}", id=face[:200])
        return found

    def demand_collections(self) -> Collections:
        if self.collections is None:
            raise BadInput(
                "this store has no collections: send the params of each task to POST /tasks/:queue instead",
                field="collection",
            )
        return self.collections


def sign(grant: Grant) -> str:
    """Who it was, in the audit log."""
    return f"token {grant.name}"
