"""Strangers' tasks and queues for whoever only reads: the same rows as in a step, from what lies in the database."""

from collections.abc import Sequence
from typing import Any, Final

from ganger.core.ids import QueueId, TaskId
from ganger.core.showing import show
from ganger.databases.mongo import Doc, ObjectId
from ganger.engine.store import Odd
from ganger.engine.stores.mongo.dialect import Dialect, read_queue
from ganger.engine.stores.mongo.odd import judge_node, judge_queue, judge_task
from ganger.engine.stores.mongo.row import QueueRow, Row
from ganger.engine.stores.mongo.strange import judge, read_strange_queue, read_strange_task
from ganger.engine.stores.mongo.tables import MET, QUEUES, SEEN, SHOWN, TASKS
from ganger.engine.stores.mongo.wording import decode_queue

_LOOKED_AT: Final = ("status", "queue", "ganger")
_SOUND: Final = (("_id", "objectId"), ("status", "number"), ("queue", "objectId"))


async def recall_queues(base: Any, dialect: Dialect) -> list[QueueRow]:
    """All queues, in the order of their ids."""
    met = {document["_id"]: QueueId(document["n"]) for document in await base[MET.name].find().to_list()}
    rows = [_read_queue(dialect, document, met) for document in await base[QUEUES.name].find().to_list()]
    return sorted((row for row in rows if row is not None), key=lambda row: row.queue.id)


def _read_queue(dialect: Dialect, document: Doc, met: dict[Any, QueueId]) -> QueueRow | None:
    inside = document.get("ganger")
    if isinstance(inside, dict) and isinstance(inside.get("id"), int):
        return decode_queue(dialect, document)
    known = met.get(document["_id"]) if isinstance(document["_id"], ObjectId) else None
    is_sound = known is not None and judge(dialect, document) is None
    return read_strange_queue(dialect, document, known) if known is not None and is_sound else None


async def recall_tasks(base: Any, dialect: Dialect, tasks: Sequence[TaskId]) -> dict[TaskId, Row]:
    """Those of these that are strangers' and were seen."""
    return await recall_seen(base, dialect, await base[SEEN.name].find({"n": {"$in": list(tasks)}}).to_list())


async def recall_seen(base: Any, dialect: Dialect, seen: Sequence[Doc], fields: Doc | None = None) -> dict[TaskId, Row]:
    """The rows of what was seen, as far as it is there and makes sense."""
    if not seen:
        return {}
    ids = {one["_id"]: one for one in seen}
    queues = {row.queue.id: row for row in await recall_queues(base, dialect)}
    where = {"_id": {"$in": list(ids)}, "ganger.id": None}
    rows = {}
    for document in await base[TASKS.name].find(where, fields).to_list():
        one = ids[document["_id"]]
        queue = queues.get(QueueId(one["queue"]))
        if queue is not None and judge_task(document) is None:
            rows[TaskId(one["n"])] = read_strange_task(dialect, document, TaskId(one["n"]), queue)
    return rows


async def recall_id(base: Any, id: Any) -> TaskId | None:
    """The number of a stranger's task by the id of its document."""
    found = await base[SEEN.name].find_one({"_id": id}, {"n": 1})
    return None if found is None else TaskId(found["n"])


async def list_odd(base: Any, dialect: Dialect, most: int) -> list[Odd]:
    """What makes no sense, in all three collections; all of it is read."""
    found: list[Odd] = []
    for document in await base[QUEUES.name].find().to_list():
        odd = _judge_queue(dialect, document)
        found += [] if odd is None else [Odd(QUEUES.name, str(document["_id"]), odd)]
    named = {"_id": {"$type": "objectId"}}
    known = {document["_id"] for document in await base[QUEUES.name].find(named, {"_id": 1}).to_list()}
    ours: Doc = {"ganger": {"$exists": True}, "ganger.id": {"$not": {"$type": "number"}}, "ganger.pending": None}
    lists = [{name: {"$type": "array"}} for name in _LOOKED_AT]
    strange: Doc = {"$or": [*({name: {"$not": {"$type": kind}}} for name, kind in _SOUND), *lists, ours]}
    async for document in base[TASKS.name].find(strange, list(_LOOKED_AT)).limit(most):
        odd = judge_task(document) or _judge_place(document, known)
        found += [] if odd is None else [Odd(TASKS.name, str(document["_id"]), odd)]
    async for document in base[SHOWN.name].find().limit(most):
        odd = judge_node(document)
        found += [] if odd is None else [Odd(SHOWN.name, str(document["_id"]), odd)]
    return found[:most]


def _judge_place(document: Doc, known: set[Any]) -> str | None:
    queue = document.get("queue")
    return None if isinstance(queue, ObjectId) and queue in known else f"its queue is {show(queue)}, which is not there"


def _judge_queue(dialect: Dialect, document: Doc) -> str | None:
    told, limit = read_queue(dialect, document)
    is_ours = isinstance(inside := document.get("ganger"), dict) and isinstance(inside.get("id"), int)
    return judge_queue({**told, "threads": limit}) if is_ours else judge(dialect, document)


async def find_odd(base: Any, dialect: Dialect, id: str) -> Odd | None:
    """The same of one document. A task is odd too if its queue is, or is not there."""
    key: Any = ObjectId(id) if ObjectId.is_valid(id) else id
    if (document := await base[TASKS.name].find_one({"_id": key})) is not None:
        odd = judge_task(document) or await _judge_home(base, dialect, document)
        return None if odd is None else Odd(TASKS.name, id, odd)
    if (document := await base[QUEUES.name].find_one({"_id": key})) is not None:
        odd = _judge_queue(dialect, document)
        return None if odd is None else Odd(QUEUES.name, id, odd)
    return None


async def _judge_home(base: Any, dialect: Dialect, document: Doc) -> str | None:
    queue = document.get("queue")
    home = await base[QUEUES.name].find_one({"_id": queue}) if isinstance(queue, ObjectId) else None
    if home is None:
        return _judge_place(document, set())
    odd = _judge_queue(dialect, home)
    return None if odd is None else f"its queue {queue} makes no sense: {odd}"
