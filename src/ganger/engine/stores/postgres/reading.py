"""How the store is read: single statements, each of which sees one instant."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from ganger.core.audit import AuditLine
from ganger.core.clock import Moment, Wall
from ganger.core.errors import TaskNotFound
from ganger.core.event import Entry, Event, Fact
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.queue import Counts
from ganger.core.state import is_final
from ganger.core.task import Attempt, Family, Task
from ganger.engine.store import Directory, Look, Value
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import known_from, queue_from

_entries = msgspec.msgpack.Decoder(tuple[Entry, ...])
OUTPUT = "out:"
_SHOWN: Final = len(Task._fields)


def task_from(row: Sequence[Any], offset: int) -> Task:
    """A row of the view `seen`, whose last columns are only asked by; moments become those of this machine."""
    task: Task = Task._make(row[:_SHOWN])
    until = None if task.until is None else Moment(task.until + offset)
    return task._replace(requires=tuple(task.requires), until=until)


async def tasks(connection: Any, ids: Sequence[TaskId], offset: int) -> list[Task | None]:
    if not ids:
        return []
    rows = await connection.fetch(Q.tasks_read, ids)
    found = {row[0]: task_from(row, offset) for row in rows}
    return [found.get(task) for task in ids]


async def look(connection: Any, task: TaskId, most: int, offset: int) -> Look:
    (found,) = await tasks(connection, [task], offset)
    if found is None:
        raise TaskNotFound(f"there is no task {task}", task=task)
    run = connection.fetch
    parents, children = await run(Q.look_parents, task, most), await run(Q.look_children, task, most)
    attempts = [Attempt._make(row) for row in await run(Q.look_attempts, task, most)]
    ((keys, streams),) = await run(Q.look_names, task)
    family = Family([tuple(row) for row in parents], [tuple(row) for row in children])
    return Look(found, family, attempts[::-1], sorted({*keys, "spec"}), sorted(streams))


class Part(NamedTuple):
    """Which part of which value is asked for."""

    task: TaskId
    key: str
    start: int
    most: int
    fence: Fence | None


async def value(connection: Any, part: Part) -> Value:
    known = await connection.fetchrow(Q.value_status, part.task)
    if known is None:
        raise TaskNotFound(f"there is no task {part.task}", task=part.task)
    ended = is_final(known[0])
    if part.key.startswith(OUTPUT):
        return await _output(connection, part, known[1], ended)
    found = await connection.fetchrow(Q.value_data, part.start, part.most, part.task, part.key)
    if found is not None:
        body, blob, size = found
        return Value(body, blob, part.start, size, ended)
    spec = await connection.fetchrow(Q.value_spec, part.start, part.most, part.task) if part.key == "spec" else None
    return Value(None, None, part.start, 0, ended) if spec is None else Value(spec[0], None, part.start, spec[1], ended)


async def _output(connection: Any, part: Part, newest: int, ended: bool) -> Value:
    """One chunk of a stream, from `start` on; a hole (trimmed output) is stepped over."""
    stream, start, fence = part.key.removeprefix(OUTPUT), part.start, part.fence
    if fence is None:
        fence = await connection.fetchval(Q.value_output_fence, part.task, newest, stream)
    size = await connection.fetchval(Q.value_output_end, part.task, fence, stream) or 0
    for at, body, blob, length in await connection.fetch(Q.value_output, part.task, fence, stream, start):
        if start < at + length:
            piece = None if body is None else body[start - at : start - at + part.most]
            return Value(piece, blob, start - at if blob else start, size, ended)
    for at, body, blob, _ in await connection.fetch(Q.value_output_next, part.task, fence, stream, start):
        return Value(None if body is None else body[: part.most], blob, 0 if blob else at, size, ended)
    return Value(None, None, start, size, ended)


async def events(connection: Any, after: Position, most: int) -> list[Event]:
    return [
        Event(position, at, Fact(fact), queue, holder, _entries.decode(entries), subject)
        for position, at, fact, queue, holder, entries, subject in await connection.fetch(Q.events_read, after, most)
    ]


async def counts(connection: Any) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
    by_queue: dict[int, dict[int, int]] = {row[0]: {} for row in await connection.fetch(Q.queue_all)}
    told: dict[QueueId, dict[str, int]] = {QueueId(queue): {} for queue in by_queue}
    for queue, name, n in await connection.fetch(Q.book_all):
        if queue in by_queue and name.lstrip("-").isdecimal():
            by_queue[queue][int(name)] = n
        elif queue in told:
            told[queue][name] = n
    return [Counts(QueueId(queue), by, sum(by.values())) for queue, by in by_queue.items()], told


async def directory(connection: Any, offset: int) -> Directory:
    tag, _, _, next_event = await connection.fetchrow(Q.store_read)
    queues = [queue_from(row) for row in await connection.fetch(Q.queue_all)]
    nodes = [known_from(row).node for row in await connection.fetch(Q.node_all)]
    shifted = [node._replace(until=Moment(node.until + offset)) for node in nodes]
    return Directory(queues, shifted, tag, Position(next_event - 1))


async def audit(connection: Any, after: Position, most: int) -> list[AuditLine]:
    rows = await connection.fetch(Q.audit_read, after, most)
    return [AuditLine(Position(row[0]), Wall(row[1]), *row[2:]) for row in rows]
