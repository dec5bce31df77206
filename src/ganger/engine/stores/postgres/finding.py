"""How tasks are found: by the index that fits the question, in the order of their ids, in bounded walks.

Ids are positions in this store, so a cursor is an id. A question without an index of its own (the queued tasks of
everywhere) walks the table, at most `WALK` rows a page: such a page may be short and still have a next one.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from ganger.core.graph import Edge
from ganger.core.ids import Position
from ganger.core.task import Task
from ganger.engine.store import SHOWN_PARENTS, Page, Query
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.reading import task_from

WALK: Final = 20_000
_USUAL: Final = frozenset({-2, -1, 0, 1})
_LAST: Final = (1 << 63) - 1


async def find(connection: Any, query: Query, offset: int) -> Page:
    page = await _find(connection, query, offset)
    return await _with_parents(connection, page) if query.with_parents else page


async def _with_parents(connection: Any, page: Page) -> Page:
    """The page with the edges above its tasks."""
    above: dict[int, list[Edge]] = {task.id: [] for task in page.tasks}
    for child, parent, on in await connection.fetch(Q.parents_shown, list(above), SHOWN_PARENTS):
        above[child].append(Edge(parent, on))
    return page._replace(parents=tuple(tuple(edges) for edges in above.values()))


async def _find(connection: Any, query: Query, offset: int) -> Page:
    after = (_LAST if query.newest_first else 0) if query.after is None else query.after
    last = await _walk(connection, query, after) if _sifts(query) else None
    end = (-1 if query.newest_first else _LAST) if last is None else last
    aside = _is_aside(query.statuses)
    asked = (
        query.queue, query.kind, None if aside else query.statuses, query.group, query.batch, query.holder, query.key,
        query.parent, query.statuses if aside else None,
    )  # fmt: skip
    rows = await _ask(connection, Q.find, (after, end), asked, query.newest_first, query.most + 1)
    return _page([task_from(row, offset) for row in rows], query.most, last)


async def _ask(
    connection: Any, text: str, start: tuple[Any, ...], asked: tuple[Any, ...], newest_first: bool, *end: Any
) -> list[Any]:
    """Run a query without the lines whose value was not asked for, so that its plan is the one for what was."""
    sql, values = text, list(start)
    for number, value in enumerate((*asked, *end), len(start) + 1):
        if value is None:
            sql = "\n".join(line for line in sql.split("\n") if not re.search(rf"\${number}(?!\d)", line))
        else:
            values.append(value)
            sql = _renumber(sql, number, len(values))
    found: list[Any] = await connection.fetch(_turn(sql) if newest_first else sql, *values)
    return found


def _renumber(sql: str, old: int, new: int) -> str:
    return re.sub(rf"\${old}(?!\d)", f"${new}", sql)


def _turn(sql: str) -> str:
    """The query turned round, where the newest go first."""
    return sql.replace("id > $1", "id < $1").replace("id <= $2", "id >= $2").replace("BY id", "BY id DESC")


def _sifts(query: Query) -> bool:
    """May it walk over any number of tasks that do not match?"""
    if any(each is not None for each in (query.key, query.holder, query.group, query.batch, query.parent)):
        return False
    return query.kind is not None or (query.statuses is not None and not _is_aside(query.statuses))


def _is_aside(statuses: Sequence[int] | None) -> bool:
    """Are only tasks asked for that have left the usual way?"""
    return statuses is not None and not _USUAL & set(statuses)


async def _walk(connection: Any, query: Query, after: int) -> int | None:
    """Where a bounded walk ends; None if the end of the table comes first."""
    rows = await _ask(connection, Q.walk, (after, WALK), (query.queue,), query.newest_first)
    return rows[0][0] if rows else None


def _page(found: list[Task], most: int, last: int | None) -> Page:
    if len(found) > most:
        return Page(found[:most], found[most - 1].position)
    return Page(found, None if last is None else Position(last))
