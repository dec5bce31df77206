"""What anybody may ask: tasks, pages, values, events, counts."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ganger.core.errors import TaskNotFound
from ganger.core.event import Event
from ganger.core.graph import Edge
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.queue import Counts
from ganger.core.state import is_final
from ganger.core.task import Attempt, Family, Task
from ganger.engine.store import SHOWN_PARENTS, Chunk, Look, Page, Query, Value
from ganger.engine.stores.memory.notes import chunks_of
from ganger.engine.stores.memory.row import Row
from ganger.engine.stores.memory.tables import Tables

OUTPUT = "out:"


class Part(NamedTuple):
    """Which bytes of a value, and of which attempt if it is a stream."""

    start: int
    most: int
    fence: Fence | None


def find(tables: Tables, query: Query) -> Page:
    matching = _walk(tables, query)
    page = [task for _, task in zip(range(query.most), matching, strict=False)]
    more = bool(page) and next(matching, None) is not None
    parents = tuple(_edges_above(tables, task.id) for task in page) if query.with_parents else ()
    return Page(page, page[-1].position if more else None, parents)


def _edges_above(tables: Tables, task: TaskId) -> tuple[Edge, ...]:
    return tuple(Edge(*edge) for edge in sorted(tables.parents.bucket(task))[:SHOWN_PARENTS])


def _walk(tables: Tables, query: Query) -> Iterator[Task]:
    for task in sorted(_candidates(tables, query), reverse=query.newest_first):
        if query.after is None or (task < query.after if query.newest_first else task > query.after):
            found = tables.rows[task].task
            if _matches(found, query):
                yield found


def _candidates(tables: Tables, query: Query) -> set[TaskId]:
    if query.parent is not None:
        return {child for child, _ in tables.children.bucket(query.parent)}
    if query.key is not None:
        return set(tables.keys.bucket(query.key))
    return set(tables.rows)


def _matches(task: Task, query: Query) -> bool:
    asked = (
        (query.queue, task.queue),
        (query.kind, task.kind),
        (query.group, task.group),
        (query.batch, task.batch),
        (query.holder, task.holder),
    )
    is_one = query.statuses is None or task.status in query.statuses
    return is_one and all(wanted is None or wanted == value for wanted, value in asked)


def row_of(tables: Tables, task: TaskId) -> Row:
    row = tables.rows.get(task)
    if row is None:
        raise TaskNotFound(f"there is no task {task}", task=task)
    return row


def look(tables: Tables, task: TaskId, most: int) -> Look:
    row = row_of(tables, task)
    family = Family(tables.parents.bucket(task)[-most:], tables.children.bucket(task)[-most:])
    streams = sorted({key.stream for key in tables.chunk_keys.bucket(task)})
    keys = {*tables.data_keys.bucket(task), *(["spec"] if row.spec else [])}
    return Look(row.task, family, _attempts(tables, task)[-most:], sorted(keys), streams)


def _attempts(tables: Tables, task: TaskId) -> list[Attempt]:
    return [tables.attempts[task, fence] for fence in tables.attempts_of.bucket(task)]


def value(tables: Tables, task: TaskId, key: str, asked: Part) -> Value:
    row = row_of(tables, task)
    if key.startswith(OUTPUT):
        return _read_stream(tables, row.task, key.removeprefix(OUTPUT), asked)
    ended, start = is_final(row.task.status), asked.start
    datum = tables.datum(task, key)
    if datum is not None and datum.blob is not None:
        return Value(None, datum.blob, start, datum.size, ended)
    body = datum.value if datum is not None else row.spec if key == "spec" else None
    if not body and datum is None:
        return Value(None, None, start, 0, ended)
    return Value((body or b"")[start : start + asked.most], None, start, len(body or b""), ended)


def _read_stream(tables: Tables, task: Task, stream: str, asked: Part) -> Value:
    fences = (key.fence for key in tables.chunk_keys.bucket(task.id) if key.stream == stream)
    fence = max(fences, default=Fence(0)) if asked.fence is None else asked.fence
    chunks = chunks_of(tables, task.id, fence, stream)
    size = max((chunk.start + chunk.size for chunk in chunks), default=0)
    ended = is_final(task.status)
    for chunk in chunks:
        if chunk.start <= asked.start < chunk.start + chunk.size:
            return _cut(chunk, asked, size, ended)
    return Value(b"" if chunks else None, None, asked.start, size, ended)


def _cut(chunk: Chunk, asked: Part, size: int, ended: bool) -> Value:
    inside = asked.start - chunk.start
    if chunk.blob is not None:
        return Value(None, chunk.blob, inside, size, ended)
    return Value(chunk.body[inside : inside + asked.most], None, asked.start, size, ended)


def events(tables: Tables, after: Position, most: int) -> list[Event]:
    if after < 0:
        return []
    behind = (tables.events.get(Position(position)) for position in range(after + 1, tables.last("event") + 1))
    return [event for _, event in zip(range(most), (event for event in behind if event is not None), strict=False)]


def counts(tables: Tables) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
    told: dict[QueueId, dict[str, int]] = {queue: {} for queue in tables.queues}
    for queue, fact in tables.tallies:
        if queue in told:
            told[queue][str(fact)] = tables.tallies[queue, fact]
    return [_count(tables, queue) for queue in sorted(tables.queues)], told


def _count(tables: Tables, queue: QueueId) -> Counts:
    by_status = {
        status: len(tables.statuses.bucket((owner, status)))
        for owner, status in tables.statuses.names()
        if owner == queue
    }
    return Counts(queue, by_status, sum(by_status.values()))


def tasks(tables: Tables, ids: Sequence[TaskId]) -> list[Task | None]:
    return [None if (row := tables.rows.get(task)) is None else row.task for task in ids]
