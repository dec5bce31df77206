"""The object ids of tasks, queues and nodes, which strangers give as well as we do."""

from collections.abc import Mapping, Sequence
from typing import Any

from ganger.core.ids import QueueId, TaskId
from ganger.core.task import Task
from ganger.databases.mongo import Database, ObjectId
from ganger.engine.stores.mongo.tables import QUEUES, SHOWN, TASKS


class MongoFaces:
    """Reads them where they are: each document's own `_id`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def name_tasks(self, tasks: Sequence[Task]) -> Sequence[str]:
        """The faces of these tasks, in their order; empty for one that is gone meanwhile."""
        found = await self._read(TASKS.name, {"ganger.id": {"$in": [int(task.id) for task in tasks]}}, "ganger.id")
        faces = {document["ganger"]["id"]: str(document["_id"]) for document in found}
        return [faces.get(task.id, "") for task in tasks]

    async def find_task(self, face: str) -> TaskId | None:
        """The task with this face; None also for a stranger's that nobody has looked at yet."""
        found = await self._read(TASKS.name, {"_id": ObjectId(face), "ganger.id": {"$exists": True}}, "ganger.id")
        return TaskId(found[0]["ganger"]["id"]) if found else None

    async def name_queues(self) -> Mapping[QueueId, str]:
        found = await self._read(QUEUES.name, {"ganger.id": {"$exists": True}}, "ganger.id")
        return {QueueId(document["ganger"]["id"]): str(document["_id"]) for document in found}

    async def name_nodes(self) -> Mapping[str, str]:
        return {document["node"]: str(document["_id"]) for document in await self._read(SHOWN.name, {}, "node")}

    async def _read(self, table: str, where: dict[str, Any], field: str) -> list[dict[str, Any]]:
        async def work(base: Any) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = await base[table].find(where, {field: 1}).to_list()
            return found

        return await self._database.read(work, "reading ids")
