"""How tasks are found: by the index that fits the question, in the order of their ids, in bounded walks.

Ids are positions in this store, so a cursor is an id. A question without an index of its own (the queued tasks of
everywhere) walks the table, at most `WALK` rows a page: such a page may be short and still have a next one.
"""

import json
from functools import cache
from typing import Any, Final

import apsw

from ganger.core.graph import Edge
from ganger.core.ids import Position
from ganger.core.task import Task
from ganger.engine.store import SHOWN_PARENTS, Page, Query
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.reading import task_from, with_spec_sizes

WALK = 20_000
STATEMENTS: Final = {
    "by_id": Q.find_by_id,
    "by_queue": Q.find_by_queue,
    "by_status": Q.find_by_status,
    "by_key": Q.find_by_key,
    "by_holder": Q.find_by_holder,
    "by_group": Q.find_by_group,
    "by_batch": Q.find_by_batch,
    "by_parent": Q.find_by_parent,
    "walk_id": Q.find_walk_id,
    "walk_queue": Q.find_walk_queue,
}
"""What drives a walk, and its query."""

_USUAL = frozenset({-2, -1, 0, 1})
_LAST = (1 << 63) - 1


def find(connection: apsw.Connection, query: Query) -> Page:
    page = _find(connection, query)
    return _with_parents(connection, page) if query.with_parents else page


def _with_parents(connection: apsw.Connection, page: Page) -> Page:
    """The page with the edges above its tasks: a short read of an index for each."""
    edges = (connection.execute(Q.look_parents, (task.id, SHOWN_PARENTS)) for task in page.tasks)
    return page._replace(parents=tuple(tuple(map(Edge._make, above)) for above in edges))


def _find(connection: apsw.Connection, query: Query) -> Page:
    bindings = _bindings(query)
    driver = _driver(query)
    if driver == "by_status":
        return _by_status(connection, query, bindings)
    if driver == "by_holder":
        return _by_holder(connection, query, bindings)
    last = _walk(connection, query, driver, bindings) if _sifts(query, driver) else None
    bindings["last"] = _LAST * (-1 if query.newest_first else 1) if last is None else last
    found = _run(connection, statement(driver, query.newest_first), bindings)
    return _page(found, query.most, last)


def _driver(query: Query) -> str:
    for field in ("key", "holder", "group", "batch", "parent"):
        if getattr(query, field) is not None:
            return f"by_{field}"
    if query.statuses and not _USUAL & set(query.statuses):
        return "by_status"
    return "by_id" if query.queue is None else "by_queue"


def _sifts(query: Query, driver: str) -> bool:
    """May it walk over any number of tasks that do not match?"""
    return driver in ("by_id", "by_queue") and (query.kind is not None or query.statuses is not None)


def _bindings(query: Query) -> dict[str, Any]:
    start = (_LAST if query.newest_first else 0) if query.after is None else query.after
    statuses = None if query.statuses is None else json.dumps(query.statuses)
    return query._asdict() | {"after": start, "statuses": statuses, "walk": WALK, "most": query.most + 1}


@cache
def statement(driver: str, newest_first: bool) -> str:
    """The query of a driver, turned round where the newest go first."""
    text = STATEMENTS[driver]
    if not newest_first:
        return text
    turned = text.replace("> :after", "< :after").replace("<= :last", ">= :last")
    return turned.replace(" ASC", " DESC")


def _walk(connection: apsw.Connection, query: Query, driver: str, bindings: dict[str, Any]) -> int | None:
    """Where a bounded walk ends; None if the end of the table comes first."""
    walk = statement("walk_id" if driver == "by_id" else "walk_queue", query.newest_first)
    return next((row[0] for row in connection.execute(walk, bindings)), None)


def _run(connection: apsw.Connection, text: str, bindings: dict[str, Any]) -> list[Task]:
    rows = list(connection.execute(text, bindings))
    return with_spec_sizes(connection, [task_from(row) for row in rows], rows)


def _page(found: list[Task], most: int, last: int | None) -> Page:
    if len(found) > most:
        return Page(found[:most], found[most - 1].position)
    return Page(found, None if last is None else Position(last))


def _by_status(connection: apsw.Connection, query: Query, bindings: dict[str, Any]) -> Page:
    """One walk per status, merged."""
    text = statement("by_status", query.newest_first)
    found = [
        task for status in set(query.statuses or ()) for task in _run(connection, text, bindings | {"status": status})
    ]
    return _page(
        sorted(found, key=lambda task: task.id, reverse=query.newest_first)[: query.most + 1], query.most, None
    )


def _by_holder(connection: apsw.Connection, query: Query, bindings: dict[str, Any]) -> Page:
    """A node's leases are few, and their index is by queue: they are sorted here."""
    found = _run(connection, statement("by_holder", query.newest_first), bindings)
    return _page(
        sorted(found, key=lambda task: task.id, reverse=query.newest_first)[: query.most + 1], query.most, None
    )
