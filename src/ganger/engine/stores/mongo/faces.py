"""The object ids of tasks, queues and nodes, which strangers give as well as we do."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ganger.core.ids import QueueId, TaskId
from ganger.core.task import Task
from ganger.databases.mongo import Database, ObjectId
from ganger.engine.stores.mongo.recalling import recall_id
from ganger.engine.stores.mongo.tables import MET, QUEUES, SEEN, SHOWN, TASKS

_NAMED: Final = {"node": {"$type": "string"}}


class MongoFaces:
    """Reads them where they are: each document's own `_id`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def name_tasks(self, tasks: Sequence[Task]) -> Sequence[str]:
        """The faces of these tasks, in their order; empty for one that is gone meanwhile."""
        ids = {"$in": [int(task.id) for task in tasks]}
        seen = await self._read(SEEN.name, {"n": ids}, "n")
        found = await self._read(TASKS.name, {"ganger.id": ids}, "ganger.id")
        faces = {document["n"]: str(document["_id"]) for document in seen}
        faces |= {document["ganger"]["id"]: str(document["_id"]) for document in found}
        return [faces.get(task.id, "") for task in tasks]

    async def find_task(self, face: str) -> TaskId | None:
        """The task with this face; None also for a stranger's that nobody has looked at yet."""
        found = await self._read(TASKS.name, {"_id": ObjectId(face), "ganger.id": {"$exists": True}}, "ganger.id")
        if found:
            return TaskId(found[0]["ganger"]["id"])
        return await self._database.read(lambda base: recall_id(base, ObjectId(face)), "reading ids")

    async def name_queues(self) -> Mapping[QueueId, str]:
        met = await self._read(MET.name, {}, "n")
        found = await self._read(QUEUES.name, {"ganger.id": {"$exists": True}}, "ganger.id")
        faces = {QueueId(document["n"]): str(document["_id"]) for document in met}
        return faces | {QueueId(document["ganger"]["id"]): str(document["_id"]) for document in found}

    async def name_nodes(self) -> Mapping[str, str]:
        return {document["node"]: str(document["_id"]) for document in await self._read(SHOWN.name, _NAMED, "node")}

    async def _read(self, table: str, where: dict[str, Any], field: str) -> list[dict[str, Any]]:
        async def work(base: Any) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = await base[table].find(where, {field: 1}).to_list()
            return found

        return await self._database.read(work, "reading ids")
