"""What the Disbatch door answers, typed for its description."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

PARAMETERS: Final = {
    "id": "Tasks with these ids, with commas between them",
    "node": "Tasks that run or ran on these nodes; -1 for those that nobody has claimed",
    "status": "Tasks with these status codes, with commas between them",
    "queue": "Tasks of these queues, by their ids or names",
    "name": "The name of the queue",
    "plugin": "The plugin of the queue",
    "constructor": "The same, in the words of the protocol",
    "threads": "How many tasks of the queue run at once on all nodes",
    "maxthreads": "How many tasks run at once on a node",
    "sort": "fifo, lifo or default",
    ".limit": "At most so many tasks; with 1 the answer is the task itself",
    ".skip": "Leave out so many first",
    ".count": "How many there are, in place of the tasks",
    ".fields": "Only these fields, as a JSON array",
    ".terse": "Leave out what tasks have printed",
    ".full": "All that tasks have printed, however long",
    ".epoch": "Times as seconds since 1970",
    ".pretty": "JSON in lines",
    "{queue}": "The id or the name of a queue",
    "{node}": "The name of a node",
    "{id}": "The id of a task",
    "{collection}": "The collection of documents",
}


class QueueReport(msgspec.Struct, frozen=True):
    """A queue. `threads` limits it over all nodes, `maxthreads` on each; null is no limit."""

    id: str
    plugin: str
    constructor: str
    name: str
    threads: int | None
    maxthreads: int | None
    sort: str
    queued: int
    running: int
    completed: int


class NodeQueue(msgspec.Struct, frozen=True):
    """A queue in the document of a node. The last two are there for old clients."""

    name: str
    id: str
    constructor: str
    maxthreads: int | None
    tasks_todo: int
    tasks_doing: int
    tasks_done: int
    preemptive: int = 1
    tasks_backfill: int = 0


class NodeReport(msgspec.Struct, frozen=True):
    """A node. `timestamp` is when it was last heard, in milliseconds since 1970; `live`: it still is."""

    oid: str = msgspec.field(name="_id")
    id: str
    node: str
    timestamp: int
    live: bool
    maxthreads: int | None
    queues: list[NodeQueue]


class Check(msgspec.Struct, frozen=True, omit_defaults=True):
    """One check of the monitoring: OK, WARNING or CRITICAL. Ages of nodes are seconds."""

    status: str
    message: str
    nodes: dict[str, dict[str, int]] = {}


class Monitoring(msgspec.Struct, frozen=True):
    disbatch: Check
    queuebalance: Check


class Info(msgspec.Struct, frozen=True):
    """What this command node is: its store, and its addresses by method."""

    database: str
    version: str
    web_extensions: list[str]
    routes: dict[str, list[str]]


def tell_insert(face: str) -> dict[str, Any]:
    """As a driver tells that one document was stored."""
    return {"MongoDB::InsertOneResult": {"acknowledged": 1, "inserted_id": face, "write_errors": []}, "id": face}


def tell_inserts(faces: Sequence[str]) -> dict[str, Any]:
    """As a driver tells that many documents were stored."""
    inserted = [{"index": index, "_id": face} for index, face in enumerate(faces)]
    told = {"acknowledged": 1, "inserted": inserted, "inserted_count": len(faces), "write_errors": []}
    return {"MongoDB::InsertManyResult": told}


def tell_update(changed: bool) -> dict[str, Any]:
    told = {"acknowledged": 1, "matched_count": 1, "modified_count": int(changed), "upserted_id": None}
    return {"MongoDB::UpdateResult": {**told, "write_errors": []}}


def tell_delete() -> dict[str, Any]:
    return {"MongoDB::DeleteResult": {"acknowledged": 1, "deleted_count": 1, "write_errors": []}}
