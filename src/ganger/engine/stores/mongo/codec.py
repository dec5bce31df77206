"""Tasks, queues and nodes as documents: the fields of the Disbatch protocol, and one more, `ganger`, for the rest."""

import json
from typing import Any, Final

from ganger.core.clock import Moment, Wall
from ganger.core.graph import Join
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lane import Lane
from ganger.core.lease import Renewal
from ganger.core.node import Node, Vitals
from ganger.core.queue import Policy, Queue, Sort
from ganger.core.state import UNREADABLE
from ganger.core.task import DEFAULT_PRIORITY, Task
from ganger.databases.mongo import Doc, date, wall_of
from ganger.engine.stores.mongo.odd import is_status, judge_queue, read_limit, read_slots
from ganger.engine.stores.mongo.row import NOTHING, ODD, OWN, UNCLAIMED, NodeRow, QueueRow, Row, Shown
from ganger.engine.stores.mongo.spec import Spec

_OUTSIDE: Final = frozenset({"status", "created", "modified", "requires"})
"""Fields of a task that are the protocol's own, or of another type in a document."""
_INSIDE: Final = tuple(name for name in Task._fields if name not in _OUTSIDE)
_KEPT: Final = ("rank", "edges", "held", "members", "failures", "open", "claimed", "term", "output", "known", "foreign")
OURS: Final = frozenset(
    {"_id", "queue", "ctime", "mtime", "node", "status", "parameters", "stdout", "stderr", "ganger"}
)
"""The attributes of a task that are the protocol's, and the one of ours. The others are strangers' own."""
BLANK: Final[Doc] = {
    **{
        f"ganger.{name}": value
        for name, value in {
            "priority": DEFAULT_PRIORITY, "fence": 0, "join": str(Join.ALL), "waits": 0, "kids": 0, "delay": 0,
            "renewal": str(Renewal.LIVENESS), "parked": False, "kill": False, "attempts": 0, "crashes": 0,
            "reserves": 0, "timeouts": 0, "releases": 0, "buries": 0, "kicks": 0, "branch": True, "spec_size": 0,
            "requires": [], "spec": None,
        }.items()
    },
    **{
        f"ganger.{name}": None
        for name in (
            "holder", "until", "key", "description", "group", "batch", "due", "retry", "timeout", "ttr", "limit_key",
            "avoid", "percent", "info", "reason", "retry_of", "started", "ended",
        )
    },
    **{f"ganger.{name}": value for name, value in Row._field_defaults.items() if name in _KEPT},
}  # fmt: skip
"""What a task has of which nothing is written."""
_PROTOCOL: Final = frozenset({"sort", "max_per_node", "plugin", "pin", "ignore"})
"""Parts of a policy that the protocol has fields for."""


def task_to(row: Row) -> Doc:
    task = row.task
    fields: Doc = {f"ganger.{name}": getattr(task, name) for name in _INSIDE}
    fields |= {f"ganger.{name}": getattr(row, name) for name in _KEPT}
    return fields | {
        **row.theirs,
        "_id": row.id,
        "queue": row.queue,
        "ctime": date(task.created),
        "mtime": date(task.modified),
        "node": row.node,
        "status": int(task.status),
        "parameters": row.spec.parameters,
        "stdout": row.stdout,
        "stderr": row.stderr,
        "ganger.spec": row.spec.raw,
        "ganger.requires": list(task.requires),
        "ganger.lane": lane_text(row.lane),
    }


def task_from(document: Doc) -> Row:
    inside = document["ganger"]
    return Row(
        task=task_only(document),
        spec=Spec(document.get("parameters"), inside.get("spec")),
        lane=read_lane(inside["lane"]) if "lane" in inside else Lane(inside["kind"], tuple(inside.get("requires", ()))),
        id=document["_id"],
        queue=document["queue"],
        node=document.get("node", UNCLAIMED),
        stdout=document.get("stdout"),
        stderr=document.get("stderr"),
        theirs={name: value for name, value in document.items() if name not in OURS} or NOTHING,
        **{name: inside[name] for name in _KEPT if name in inside},
    )


def task_only(document: Doc) -> Task:
    inside = document["ganger"]
    fields = {name: inside[name] if name in inside else BLANK[f"ganger.{name}"] for name in _INSIDE}
    status = document.get("status")
    return Task(
        **fields,
        status=status if is_status(status) else UNREADABLE,
        created=Wall(created := wall_of(document.get("ctime"), 0)),
        modified=Wall(wall_of(document.get("mtime"), created)),
        requires=tuple(inside.get("requires", ())),
    )


def lane_text(lane: Lane) -> str:
    return json.dumps(lane, separators=(",", ":"))


def read_lane(text: str) -> Lane:
    kind, requires, avoid, avoid_until = json.loads(text)
    return Lane(kind, tuple(requires), avoid, avoid_until)


def queue_to(row: QueueRow) -> Doc:
    policy = row.queue.policy
    rest = {name: value for name, value in policy._asdict().items() if name not in _PROTOCOL}
    return {
        "_id": row.id,
        "name": row.queue.name,
        "constructor": policy.plugin or OWN,
        "maxthreads": policy.max_per_node,
        "sort": str(policy.sort),
        "count_todo": row.todo,
        "count_total": row.total,
        "nodes_pin": list(policy.pin) or None,
        "nodes_ignore": list(policy.ignore) or None,
        "ganger.id": row.queue.id,
        "ganger.policy": rest,
        "ganger.paused_until": row.queue.paused_until,
        "ganger.batch": row.batch,
        "ganger.filled": row.filled,
    }


def queue_from(document: Doc) -> QueueRow:
    inside = document["ganger"]
    name = str(document.get("name"))
    queue = Queue(QueueId(inside["id"]), name, _policy(document), Wall(inside.get("paused_until", 0)))
    todo, total = document.get("count_todo"), document.get("count_total")
    return QueueRow(queue, document["_id"], inside.get("batch"), inside.get("filled", 0), todo, total)


def _policy(document: Doc) -> Policy:
    written = document["ganger"].get("policy")
    if not isinstance(written, dict):
        return Policy(plugin=ODD)
    kept = {name: _tupled(value) for name, value in written.items()}
    return said_policy(document)._replace(**kept)


def said_policy(document: Doc) -> Policy:
    """What the protocol's own fields of a queue say; one that makes no sense has a plugin that nobody has."""
    if judge_queue(document) is not None:
        return Policy(plugin=ODD)
    constructor, sort = document.get("constructor"), document.get("sort")
    return Policy(
        sort=sort if isinstance(sort, str) and sort in set(Sort) else Sort.DEFAULT,
        max_per_node=read_limit(document.get("maxthreads")),
        plugin=None if constructor == OWN else constructor,
        pin=tuple(document.get("nodes_pin") or ()),
        ignore=tuple(document.get("nodes_ignore") or ()),
    )


def node_to(row: NodeRow) -> Doc:
    node = row.node
    plain = {name: _listed(value) for name, value in node._asdict().items() if name != "vitals"}
    vitals = None if node.vitals is None else [_listed(value) for value in node.vitals]
    kept = {"token": row.token, "boot": row.boot, "term": row.term, "said": row.said}
    return {**plain, "_id": node.id, "vitals": vitals, **kept}


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def node_from(document: Doc) -> NodeRow:
    fields = {name: _tupled(document[name]) for name in Node._fields if name not in ("id", "vitals")}
    vitals = None if document["vitals"] is None else Vitals(*map(_tupled, document["vitals"]))
    node = Node(id=NodeId(document["_id"]), vitals=vitals, **fields)
    return NodeRow(node, document["token"], document["boot"], document["term"], document.get("said", node.slots))


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def shift(node: Node, offset: int) -> Node:
    """The node with its end as a moment of this machine."""
    return node._replace(until=Moment(node.until + offset)) if offset else node


def shown_to(shown: Shown) -> Doc:
    return {
        "_id": shown.id,
        "node": shown.name,
        "timestamp": date(shown.seen),
        "maxthreads": shown.slots,
        "queues": list(shown.queues),
        **({"ganger.ours": True, "ganger.said": shown.said, "ganger.made": shown.made} if shown.ours else {}),
    }


def shown_from(document: Doc) -> Shown:
    inside = document.get("ganger") if isinstance(document.get("ganger"), dict) else None
    return Shown(
        document["_id"],
        document["node"],
        Wall(wall_of(document.get("timestamp"), 0)),
        read_slots(document.get("maxthreads")),
        tuple(queues) if isinstance(queues := document.get("queues"), list) else (),
        inside is not None,
        None if inside is None else inside.get("said"),
        inside is not None and inside.get("made", True),
    )


def task_key(row: Row) -> TaskId:
    return row.task.id
