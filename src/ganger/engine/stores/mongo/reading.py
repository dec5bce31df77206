"""What anybody may ask about one task, and about the store: tasks, values, events, counts."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ganger.core.audit import AuditLine
from ganger.core.clock import Moment
from ganger.core.errors import TaskNotFound
from ganger.core.event import Event
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.queue import Counts
from ganger.core.state import is_final
from ganger.core.task import Attempt, Family, Task
from ganger.databases.mongo import Doc, ObjectId
from ganger.engine.store import Directory, Look, Value
from ganger.engine.stores.mongo import foreign
from ganger.engine.stores.mongo.codec import node_from, shift, task_only
from ganger.engine.stores.mongo.dialect import Dialect
from ganger.engine.stores.mongo.odd import is_status
from ganger.engine.stores.mongo.recalling import recall_queues, recall_tasks
from ganger.engine.stores.mongo.row import Row
from ganger.engine.stores.mongo.tables import (
    ATTEMPTS,
    AUDIT,
    CHUNKS,
    DATA,
    EVENTS,
    LINKS,
    NODES,
    TALLIES,
    TASKS,
    attempt_from,
    chunk_from,
    datum_from,
    datum_key,
    event_from,
    line_from,
)
from ganger.engine.stores.mongo.wording import decode_task

OUTPUT: Final = "out:"
BRIEF: Final[Doc] = {"parameters": 0, "params": 0, "ganger.spec": 0, "stdout": 0, "stderr": 0}
"""What a list of tasks leaves out."""
STORE: Final = "ganger_store"


class Sight(NamedTuple):
    """How documents are understood: the words that they have, and what this machine's time is ahead of theirs."""

    dialect: Dialect
    offset: int


class Part(NamedTuple):
    """Which bytes of a value, and of which attempt if it is a stream."""

    task: TaskId
    key: str
    start: int
    most: int
    fence: Fence | None


def brief(document: Doc, offset: int) -> Task:
    """A task with the end of its lease as a moment of this machine."""
    task = task_only(document)
    return task if task.until is None or not offset else task._replace(until=Moment(task.until + offset))


async def tasks(database: Any, sight: Sight, ids: Sequence[TaskId]) -> list[Task | None]:
    found = await database[TASKS.name].find({"ganger.id": {"$in": list(ids)}}, BRIEF).to_list()
    by_id = {document["ganger"]["id"]: brief(document, sight.offset) for document in found}
    missing = [task for task in ids if task not in by_id]
    if missing:
        by_id |= {task: row.task for task, row in (await recall_tasks(database, sight.dialect, missing)).items()}
    return [by_id.get(task) for task in ids]


async def _row_of(database: Any, dialect: Dialect, task: TaskId) -> Row:
    found = await database[TASKS.name].find_one({"ganger.id": task})
    row = (await recall_tasks(database, dialect, [task])).get(task) if found is None else decode_task(dialect, found)
    if row is None:
        raise TaskNotFound(f"there is no task {task}", task=task)
    return row


async def look(database: Any, sight: Sight, task: TaskId, most: int) -> Look:
    row = await _row_of(database, sight.dialect, task)
    above = await _edges(database, {"child": task}, "parent", most)
    below = await _edges(database, {"parent": task}, "child", most)
    stored = await database[DATA.name].find({"task": task}, {"key": 1}).to_list()
    keys = {document["key"] for document in stored} | ({"spec"} if row.spec.to_bytes(row.task.kind) else set())
    keys |= foreign.list_data(row).keys()
    streams = {*await database[CHUNKS.name].distinct("stream", {"task": task}), *foreign.list_streams(row)}
    until = row.task.until
    shown = row.task if until is None else row.task._replace(until=Moment(until + sight.offset))
    return Look(shown, Family(above, below), await _attempts(database, task, most), sorted(keys), sorted(streams))


async def _edges(database: Any, where: Doc, end: str, most: int) -> list[tuple[TaskId, str]]:
    found = await database[LINKS.name].find(where).sort([(end, -1), ("on", -1)]).limit(most).to_list()
    return [(TaskId(document[end]), document["on"]) for document in reversed(found)]


async def _attempts(database: Any, task: TaskId, most: int) -> list[Attempt]:
    found = await database[ATTEMPTS.name].find({"task": task}).sort("fence", -1).limit(most).to_list()
    return [attempt_from(document) for document in reversed(found)]


async def value(database: Any, dialect: Dialect, asked: Part) -> Value:
    row = await _row_of(database, dialect, asked.task)
    if asked.key.startswith(OUTPUT):
        return await _read_stream(database, row, asked)
    ended, start = is_final(row.task.status), asked.start
    found = await database[DATA.name].find_one({"_id": datum_key(asked.task, asked.key)})
    datum = None if found is None else datum_from(found).datum
    if datum is not None and datum.blob is not None:
        return Value(None, datum.blob, start, datum.size, ended)
    said = row.spec.to_bytes(row.task.kind) if asked.key == "spec" else foreign.list_data(row).get(asked.key)
    body = said if datum is None else datum.value
    if not body and datum is None:
        return Value(None, None, start, 0, ended)
    return Value((body or b"")[start : start + asked.most], None, start, len(body or b""), ended)


async def _read_stream(database: Any, row: Row, asked: Part) -> Value:
    where: Doc = {"task": row.task.id, "stream": asked.key.removeprefix(OUTPUT)}
    ended = is_final(row.task.status)
    if asked.fence is not None:
        return await _cut(database, {**where, "fence": asked.fence}, asked, ended)
    newest = await database[CHUNKS.name].find_one(where, {"fence": 1}, sort=[("fence", -1)])
    if newest is not None:
        return await _cut(database, {**where, "fence": newest["fence"]}, asked, ended)
    printed = await foreign.read_printed(database, row, where["stream"], asked.start, asked.most)
    return (
        Value(None, None, asked.start, 0, ended)
        if printed is None
        else Value(printed.body, None, asked.start, printed.size, ended)
    )


async def _cut(database: Any, where: Doc, asked: Part, ended: bool) -> Value:
    ends = await database[CHUNKS.name].find(where, {"start": 1, "size": 1}).to_list()
    size = max((one["start"] + one["size"] for one in ends), default=0)
    inside = [one for one in ends if one["start"] <= asked.start < one["start"] + one["size"]]
    if not inside:
        return Value(b"" if ends else None, None, asked.start, size, ended)
    found = await database[CHUNKS.name].find_one({"_id": min(inside, key=lambda one: one["start"])["_id"]})
    if found is None:
        return Value(b"", None, asked.start, size, ended)
    chunk = chunk_from(found).chunk
    start = asked.start - chunk.start
    if chunk.blob is not None:
        return Value(None, chunk.blob, start, size, ended)
    return Value(chunk.body[start : start + asked.most], None, asked.start, size, ended)


async def events(database: Any, after: Position, most: int) -> list[Event]:
    if after < 0:
        return []
    found = await database[EVENTS.name].find({"_id": {"$gt": after}}).sort("_id", 1).limit(most).to_list()
    return [event_from(document) for document in found]


async def counts(database: Any, dialect: Dialect) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
    queues = {row.id: row.queue.id for row in await recall_queues(database, dialect)}
    group = {"$group": {"_id": {"queue": "$queue", "status": "$status"}, "n": {"$sum": 1}}}
    counted = await (await database[TASKS.name].aggregate([group])).to_list()
    by_status: dict[QueueId, dict[int, int]] = {queue: {} for queue in queues.values()}
    for one in counted:
        place, status = one["_id"].get("queue"), one["_id"].get("status")
        if isinstance(place, ObjectId) and place in queues and is_status(status):
            by_status[queues[place]][status] = one["n"]
    told: dict[QueueId, dict[str, int]] = {queue: {} for queue in queues.values()}
    for tally in await database[TALLIES.name].find({"queue": {"$in": list(told)}}).to_list():
        told[tally["queue"]][tally["fact"]] = tally["n"]
    return [Counts(queue, by_status[queue], sum(by_status[queue].values())) for queue in sorted(by_status)], told


async def directory(database: Any, sight: Sight, last_event: int) -> Directory:
    queues = [row.queue for row in await recall_queues(database, sight.dialect)]
    nodes = [
        shift(node_from(row).node, sight.offset) for row in await database[NODES.name].find().sort("_id", 1).to_list()
    ]
    store = await database[STORE].find_one({"_id": "store"})
    return Directory(queues, nodes, store["tag"], Position(last_event))


async def audit(database: Any, after: Position, most: int) -> list[AuditLine]:
    found = await database[AUDIT.name].find({"_id": {"$gt": after}}).sort("_id", 1).limit(most).to_list()
    return [line_from(document) for document in found]
