"""The ids of tasks, queues and nodes as clients see them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from ganger.core.ids import QueueId, TaskId
from ganger.core.task import Task
from ganger.engine.engine import Engine
from ganger.wire.disbatch.words import read_task, say_number, say_task


class Faces(Protocol):
    """Who knows the ids of 24 hexadecimal digits. A store in which strangers give ids keeps those."""

    async def name_tasks(self, tasks: Sequence[Task]) -> Sequence[str]:
        """The faces of these tasks, in their order."""
        ...

    async def find_task(self, face: str) -> TaskId | None:
        """The task that may have this face; whoever finds it compares the whole."""
        ...

    async def name_queues(self) -> Mapping[QueueId, str]:
        """The faces of all queues."""
        ...

    async def name_nodes(self) -> Mapping[str, str]:
        """The faces of all nodes, by name."""
        ...


class PlainFaces:
    """Faces that are made from numbers, and kept nowhere."""

    def __init__(self, engine: Engine, tag: int) -> None:
        self._engine = engine
        self._tag = tag

    async def name_tasks(self, tasks: Sequence[Task]) -> Sequence[str]:
        return [say_task(task) for task in tasks]

    async def find_task(self, face: str) -> TaskId | None:
        return read_task(face)

    async def name_queues(self) -> Mapping[QueueId, str]:
        return {queue.id: say_number(self._tag, queue.id) for queue in await self._engine.queues.all()}

    async def name_nodes(self) -> Mapping[str, str]:
        return {node.name: say_number(self._tag, node.identity) for node in await self._engine.nodes.all()}
