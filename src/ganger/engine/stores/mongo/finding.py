"""Lists of tasks, in the order of their positions."""

from typing import Any, Final

from ganger.core.graph import Edge
from ganger.core.ids import TaskId
from ganger.core.task import Task
from ganger.databases.mongo import Doc
from ganger.engine.store import SHOWN_PARENTS, Page, Query
from ganger.engine.stores.mongo.reading import BRIEF, Sight, brief
from ganger.engine.stores.mongo.recalling import recall_seen
from ganger.engine.stores.mongo.tables import LINKS, SEEN, TASKS

_FIELDS: Final = ("queue", "kind", "group", "batch", "holder", "key")
_CHILDREN: Final = 1_000
BRIEF_OF_STRANGERS: Final[Doc] = {"stdout": 0, "stderr": 0}


async def find(database: Any, query: Query, sight: Sight) -> Page:
    where = _where(query)
    if query.parent is None:
        found = await _page(database, where, query)
    else:
        found = await _children(database, where, query)
    theirs = await _find_seen(database, query, sight)
    both = [*(brief(document, sight.offset) for document in found), *theirs]
    both.sort(key=lambda task: task.position, reverse=query.newest_first)
    tasks = both[: query.most]
    more = len(both) > query.most and bool(tasks)
    parents = await _parents(database, tasks) if query.with_parents else ()
    return Page(tasks, tasks[-1].position if more else None, parents)


async def _find_seen(database: Any, query: Query, sight: Sight) -> list[Task]:
    """Strangers' tasks in which nothing of ours is written, by the status that was last told. They are in no group."""
    if any(value is not None for value in (query.group, query.batch, query.holder, query.key, query.parent)):
        return []
    where: Doc = {"n": _beyond(query)} | ({} if query.queue is None else {"queue": query.queue})
    if query.statuses is not None:
        where["known"] = {"$in": [int(status) for status in query.statuses]}
    walk, found = database[SEEN.name], list[Task]()
    while len(found) <= query.most:
        lot = await walk.find(where).sort("n", -1 if query.newest_first else 1).limit(max(1, query.most + 1)).to_list()
        rows = await recall_seen(database, sight.dialect, lot, BRIEF_OF_STRANGERS)
        tasks = [row.task for _, row in sorted(rows.items(), reverse=query.newest_first)]
        found += [task for task in tasks if query.kind in (None, task.kind)]
        if len(lot) <= query.most:
            break
        where["n"] = {"$lt" if query.newest_first else "$gt": lot[-1]["n"]}
    return found[: query.most + 1]


def _beyond(query: Query) -> Doc:
    return {"$gt": 0} if query.after is None else {"$lt" if query.newest_first else "$gt": query.after}


def _where(query: Query) -> Doc:
    given: Doc = {f"ganger.{name}": getattr(query, name) for name in _FIELDS if getattr(query, name) is not None}
    statuses = None if query.statuses is None else [int(status) for status in query.statuses]
    return {**given, "ganger.position": _beyond(query)} | ({} if statuses is None else {"status": {"$in": statuses}})


async def _page(database: Any, where: Doc, query: Query) -> list[Doc]:
    order = -1 if query.newest_first else 1
    found = database[TASKS.name].find(where, BRIEF).sort("ganger.position", order).limit(max(0, query.most) + 1)
    page: list[Doc] = await found.to_list()
    return page


async def _children(database: Any, where: Doc, query: Query) -> list[Doc]:
    """Children of one parent, some edges at a time: it may have a million of them."""
    found: list[Doc] = []
    after, order = query.after, -1 if query.newest_first else 1
    while len(found) <= query.most:
        beyond = {} if after is None else {"child": {"$lt" if query.newest_first else "$gt": after}}
        walk = database[LINKS.name].find({"parent": query.parent, **beyond}).sort("child", order)
        edges = await walk.limit(_CHILDREN).to_list()
        if not edges:
            break
        after = edges[-1]["child"]
        found += await _page(database, {**where, "ganger.id": {"$in": [edge["child"] for edge in edges]}}, query)
    return found[: query.most + 1]


async def _parents(database: Any, tasks: list[Task]) -> tuple[tuple[Edge, ...], ...]:
    edges: dict[TaskId, list[Edge]] = {task.id: [] for task in tasks}
    found = database[LINKS.name].find({"child": {"$in": list(edges)}}).sort([("parent", 1), ("on", 1)])
    async for edge in found:
        edges[edge["child"]].append(Edge(edge["parent"], edge["on"]))
    return tuple(tuple(edges[task.id][:SHOWN_PARENTS]) for task in tasks)
