"""Questions over many rows, each said twice: as the server understands it, and of a row at hand."""

from collections.abc import Collection, Iterable
from typing import Any, Final

from ganger.core.clock import Moment, Wall
from ganger.core.event import Event
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.lane import Lane
from ganger.core.state import LEASED, WAITING, Status, is_final
from ganger.core.task import Attempt, Kind
from ganger.databases.mongo import Choice, Doc, ObjectId
from ganger.engine.stores.mongo.codec import lane_text
from ganger.engine.stores.mongo.row import ChunkRow, DatumRow, Link, Met, NodeRow, QueueRow, Row
from ganger.engine.stores.mongo.tables import ATTEMPTS, CHUNKS, DATA, EVENTS, FOLLOWS, LINKS, MET, NODES, QUEUES, TASKS

_ACTIVE: Final[Doc] = {"$in": [int(Status.CLAIMED), int(Status.RUNNING)]}
_BY_CLAIM: Final = (("ganger.priority", 1), ("ganger.rank", 1), ("ganger.id", 1))


def _by_claim(row: Row) -> Any:
    return row.task.priority, row.rank, row.task.id


def _by_id(row: Row) -> Any:
    return row.task.id


def _is_active(row: Row) -> bool:
    return row.task.status in LEASED


def ready(queue: QueueId, lanes: Collection[Lane] | None = None) -> Choice[Row]:
    """What a claim may take, in the order of claiming."""
    where: Doc = {"ganger.queue": queue, "status": int(Status.QUEUED), "ganger.parked": False}
    if lanes is not None:
        where["ganger.lane"] = {"$in": [lane_text(lane) for lane in lanes]}

    def fits(row: Row) -> bool:
        task = row.task
        mine = task.queue == queue and task.status == Status.QUEUED and not task.parked
        return mine and (lanes is None or row.lane in lanes)

    return Choice(TASKS, where, fits, _BY_CLAIM, _by_claim)


def delayed(queues: Collection[QueueId] | None, due: Wall | None = None) -> Choice[Row]:
    """Delayed tasks, the first due first; those that are due by then. Whatever a stranger delayed is not ours."""
    where: Doc = {"status": int(Status.DELAYED), "ganger.due": {"$type": "number"} if due is None else {"$lte": due}}
    where["ganger.queue"] = {"$gt": 0} if queues is None else {"$in": list(queues)}

    def fits(row: Row) -> bool:
        task = row.task
        mine = task.status == Status.DELAYED and (queues is None or task.queue in queues)
        return mine and task.due is not None and (due is None or task.due <= due)

    return Choice(TASKS, where, fits, (("ganger.due", 1), ("ganger.id", 1)), lambda row: (row.task.due, row.task.id))


def limited(queue: QueueId, key: str, parked: bool | None = None) -> Choice[Row]:
    """The queued tasks of a concurrency key, in the order of claiming."""
    where: Doc = {"ganger.queue": queue, "ganger.limit_key": key, "status": int(Status.QUEUED)}
    if parked is not None:
        where["ganger.parked"] = parked

    def fits(row: Row) -> bool:
        mine = row.limit == (queue, key) and row.task.status == Status.QUEUED
        return mine and (parked is None or row.task.parked == parked)

    return Choice(TASKS, where, fits, _BY_CLAIM, _by_claim)


def any_limited(queue: QueueId) -> Choice[Row]:
    where = {"ganger.queue": queue, "ganger.limit_key": {"$gt": ""}, "status": int(Status.QUEUED)}
    return Choice(
        TASKS, where, lambda row: row.task.queue == queue and row.limit is not None and row.task.status == Status.QUEUED
    )


def active_of_key(queue: QueueId, key: str) -> Choice[Row]:
    where = {"ganger.queue": queue, "ganger.limit_key": key, "status": _ACTIVE}
    return Choice(TASKS, where, lambda row: row.limit == (queue, key) and _is_active(row))


def active_in(queue: ObjectId, name: str | None = None) -> Choice[Row]:
    """What is claimed or runs of a queue, by whomever, or by the node of that name."""
    where: Doc = {"queue": queue, "status": _ACTIVE} | ({} if name is None else {"node": name})
    return Choice(
        TASKS, where, lambda row: row.queue == queue and _is_active(row) and (name is None or row.node == name)
    )


def active_on(name: str) -> Choice[Row]:
    """What is claimed or runs on the node of that name, of whatever registration."""
    return Choice(TASKS, {"node": name, "status": _ACTIVE}, lambda row: row.node == name and _is_active(row))


def active_of_node(node: NodeId, queue: QueueId | None = None) -> Choice[Row]:
    where: Doc = {"ganger.holder": node, "status": _ACTIVE} | ({} if queue is None else {"ganger.queue": queue})

    def fits(row: Row) -> bool:
        return row.task.holder == node and _is_active(row) and queue in (None, row.task.queue)

    return Choice(TASKS, where, fits, (("ganger.id", 1),), _by_id)


def active_of_nodes(nodes: Collection[NodeId]) -> Choice[Row]:
    where: Doc = {"ganger.holder": {"$in": list(nodes)}, "status": _ACTIVE}
    return Choice(TASKS, where, lambda row: row.task.holder in nodes and _is_active(row), (("ganger.id", 1),), _by_id)


def touched(until: Moment | None = None) -> Choice[Row]:
    """Leases with an end of their own; those that end by then."""
    where: Doc = {"ganger.until": {"$gt": 0} if until is None else {"$gt": 0, "$lte": until}}

    def fits(row: Row) -> bool:
        return row.task.until is not None and (until is None or row.task.until <= until)

    order = (("ganger.until", 1), ("ganger.id", 1))
    return Choice(TASKS, where, fits, order, lambda row: (row.task.until, row.task.id))


def of_queue(queue: QueueId) -> Choice[Row]:
    return Choice(TASKS, {"ganger.queue": queue}, lambda row: row.task.queue == queue, (("ganger.id", 1),), _by_id)


def open_of_queue(queue: QueueId) -> Choice[Row]:
    where = {"ganger.queue": queue, "status": {"$lte": 0, "$nin": [-3, -5, -6]}}
    return Choice(
        TASKS,
        where,
        lambda row: row.task.queue == queue and not is_final(row.task.status),
        (("ganger.id", 1),),
        _by_id,
    )


def with_keys(keys: Iterable[str]) -> Choice[Row]:
    wanted = set(keys)
    where = {"ganger.key": {"$in": sorted(wanted)}}
    return Choice(TASKS, where, lambda row: row.task.key in wanted, (("ganger.id", 1),), _by_id)


def ended(before: Wall) -> Choice[Row]:
    """Final tasks that ended before then, the oldest first."""
    where = {"ganger.ended": {"$gte": 0, "$lt": before}}

    def fits(row: Row) -> bool:
        return is_final(row.task.status) and row.task.ended is not None and row.task.ended < before

    order = (("ganger.ended", 1), ("ganger.id", 1))
    return Choice(TASKS, where, fits, order, lambda row: (row.task.ended, row.task.id))


def prunable(before: Wall, waited_for: Collection[TaskId], foreign: bool) -> Choice[Row]:
    """Final tasks of ours, or of strangers, that ended before then, but for the members of these groups, which still
    count them.
    """
    old = ended(before)
    made = {"ganger.foreign": True if foreign else {"$ne": True}}
    where = {**old.where, **made, "ganger.group": {"$nin": list(waited_for)}}

    def fits(row: Row) -> bool:
        return old.fits(row) and row.foreign == foreign and row.task.group not in waited_for

    return old._replace(where=where, fits=fits)


def open_groups() -> Choice[Row]:
    where = {"ganger.kind": str(Kind.GROUP), "status": {"$in": [int(status) for status in WAITING]}}
    return Choice(TASKS, where, lambda row: row.task.kind == Kind.GROUP and row.task.status in WAITING)


def with_output() -> Choice[Row]:
    """Final tasks of which there is output, the oldest first."""
    where = {"ganger.output": {"$gt": 0}, "ganger.ended": {"$gte": 0}}
    order = (("ganger.ended", 1), ("ganger.id", 1))
    return Choice(
        TASKS,
        where,
        lambda row: row.output > 0 and row.task.ended is not None,
        order,
        lambda row: (row.task.ended, row.task.id),
    )


def old_events(before: Wall) -> Choice[Event]:
    return Choice(EVENTS, {"at": {"$lt": before}}, lambda event: event.at < before, (("_id", 1),), _by_position)


def _by_position(event: Event) -> Any:
    return event.position


def above(children: Iterable[TaskId]) -> Choice[Link]:
    """The edges above these tasks."""
    wanted = set(children)
    where = {"child": {"$in": sorted(wanted)}}
    return Choice(LINKS, where, lambda link: link.child in wanted, (), lambda link: (link.parent, link.on))


def below(parents: Iterable[TaskId]) -> Choice[Link]:
    """The edges below these tasks."""
    wanted = set(parents)
    where = {"parent": {"$in": sorted(wanted)}}
    return Choice(LINKS, where, lambda link: link.parent in wanted, (), lambda link: (link.child, link.on))


def data_of(task: TaskId) -> Choice[DatumRow]:
    return Choice(DATA, {"task": task}, lambda row: row.task == task)


def chunks_of(task: TaskId) -> Choice[ChunkRow]:
    return Choice(CHUNKS, {"task": task}, lambda row: row.task == task, (), lambda row: (row.fence, row.chunk.start))


def attempts_of(task: TaskId) -> Choice[Attempt]:
    return Choice(ATTEMPTS, {"task": task}, lambda attempt: attempt.task == task)


def here(name: str | None = None) -> Choice[NodeRow]:
    """Registrations that have neither left nor been lost."""
    where: Doc = {"state": {"$in": ["active", "draining"]}} | ({} if name is None else {"name": name})
    return Choice(
        NODES,
        where,
        lambda row: row.node.here and name in (None, row.node.name),
        (("_id", 1),),
        lambda row: row.node.id,
    )


def gone(name: str | None = None) -> Choice[NodeRow]:
    """Registrations that have left or were lost."""
    where: Doc = {"state": {"$in": ["left", "lost"]}} | ({} if name is None else {"name": name})
    return Choice(NODES, where, lambda row: not row.node.here and name in (None, row.node.name))


def follows() -> Choice[tuple[TaskId, Moment]]:
    return Choice(FOLLOWS, {}, lambda _: True, (("until", 1),), lambda row: row[1])


def named_queue(name: str) -> Choice[QueueRow]:
    return Choice(
        QUEUES,
        {"name": name, "ganger.id": {"$exists": True}},
        lambda row: row.queue.name == name,
        (("ganger.id", 1),),
        lambda row: row.queue.id,
    )


def all_queues() -> Choice[QueueRow]:
    return Choice(
        QUEUES,
        {"ganger.id": {"$exists": True}},
        lambda _: True,
        (("ganger.id", 1),),
        lambda row: row.queue.id,
    )


def met() -> Choice[Met]:
    """The queues of strangers in which nothing of ours is written."""
    return Choice(MET, {}, lambda _: True, (("n", 1),), lambda met: met.queue)


def touched_after(now: Moment) -> Choice[Row]:
    """Leases with an end of their own that is to come, the first first."""
    order = (("ganger.until", 1), ("ganger.id", 1))
    return Choice(
        TASKS,
        {"ganger.until": {"$gt": now}},
        lambda row: row.task.until is not None and row.task.until > now,
        order,
        lambda row: (row.task.until, row.task.id),
    )
