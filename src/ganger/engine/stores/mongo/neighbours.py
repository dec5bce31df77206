"""The nodes of strangers: their documents are read, and their limit is all that is ever written there."""

from typing import Any, Final

from ganger.core.clock import Moment, Wall
from ganger.core.ids import NodeId, TaskId
from ganger.core.node import Node, NodeState
from ganger.databases.mongo import Doc, date, wall_of
from ganger.engine.stores.mongo.odd import read_slots
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.tables import SEEN, SHOWN, TASKS

STRANGER_LIVES: Final = 60_000
"""Milliseconds after its last sign of life for which a stranger's node is taken to be there."""
_STRANGE: Final[Doc] = {"ganger": None, "node": {"$type": "string"}}
_NOBODY: Final = NodeId(0)


async def are_here(step: Step) -> bool:
    """Does any node of strangers live?"""
    recent = {"timestamp": {"$gt": date(step.wall - STRANGER_LIVES)}}
    return bool(await step.session.find(SHOWN.name, {**_STRANGE, **recent}, 1, ("_id",)))


async def list_all(base: Any, name: str | None = None) -> list[Node]:
    where = _STRANGE if name is None else {"$and": [_STRANGE, {"node": name}]}
    told = [{"$match": where}, {"$sort": {"node": 1}}, {"$addFields": {"now": {"$toLong": "$$NOW"}}}]
    return [_describe(document) async for document in await base[SHOWN.name].aggregate(told)]


async def limit(base: Any, name: str, slots: int | None) -> None:
    await base[SHOWN.name].update_one({"$and": [_STRANGE, {"node": name}]}, {"$set": {"maxthreads": slots}})


async def name_holder(base: Any, task: TaskId) -> str | None:
    found = await base[TASKS.name].find_one({"ganger.id": task}, {"node": 1})
    if found is None and (seen := await base[SEEN.name].find_one({"n": task})) is not None:
        found = await base[TASKS.name].find_one({"_id": seen["_id"]}, {"node": 1})
    return found["node"] if found is not None and isinstance(found.get("node"), str) else None


def _describe(document: Doc) -> Node:
    seen, slots = Wall(wall_of(document.get("timestamp"), 0)), document.get("maxthreads")
    lives = document["now"] - seen < STRANGER_LIVES
    return Node(
        id=_NOBODY,
        identity=0,
        name=document["node"],
        state=str(NodeState.ACTIVE if lives else NodeState.LOST),
        until=Moment(0),
        lease=0,
        slots=read_slots(slots),
        queues=_list_queues(document.get("queues")),
        kinds=None,
        labels=(),
        since=seen,
        seen=seen,
    )


def _list_queues(said: Any) -> tuple[str, ...] | None:
    """The names of its queues; None if it says nothing of them, as in the later dialect."""
    if not isinstance(said, list):
        return None
    return tuple(str(queue.get("name")) for queue in said if isinstance(queue, dict))
