"""How the store is read: on a connection of the reader's own, beside the writer."""

import json
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw
import msgspec

from ganger.core.audit import AuditLine
from ganger.core.clock import Wall
from ganger.core.errors import TaskNotFound
from ganger.core.event import Entry, Event, Fact
from ganger.core.graph import Join
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.lease import Renewal
from ganger.core.queue import Counts
from ganger.core.state import is_final
from ganger.core.task import Attempt, Family, Task
from ganger.engine.store import Directory, Look, Value
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.rows import node_from, shelved_from

_entries = msgspec.msgpack.Decoder(tuple[Entry, ...])
OUTPUT = "out:"


def task_from(row: Sequence[Any]) -> Task:
    """A row of the column list that every task query has, as a task."""
    values = list(row)
    values[13] = Join.ANY.value if values[13] else Join.ALL.value
    values[20] = Renewal.TOUCH.value if values[20] else Renewal.LIVENESS.value
    values[23] = bool(values[23])
    values[24] = values[24] or None
    values[25] = tuple(json.loads(values[25]))
    values[26] = bool(values[26])
    values[37] = bool(values[37])
    values[43] = values[43] or 0
    return Task._make(values)


def with_spec_sizes(connection: apsw.Connection, tasks: list[Task], rows: list[Any]) -> list[Task]:
    """Specs that lie in data have their size there."""
    away = array("q", [task.id for task, row in zip(tasks, rows, strict=True) if row[43] is None])
    if not away:
        return tasks
    sizes = dict(connection.execute(Q.spec_size, (apsw.carray(away),)))
    return [task._replace(spec_size=sizes[task.id]) if task.id in sizes else task for task in tasks]


def tasks(connection: apsw.Connection, ids: Sequence[TaskId]) -> list[Task | None]:
    if not ids:
        return []
    rows = list(connection.execute(Q.tasks_read, (apsw.carray(array("q", ids)),)))
    found = {task.id: task for task in with_spec_sizes(connection, [task_from(row) for row in rows], rows)}
    return [found.get(task) for task in ids]


def look(connection: apsw.Connection, task: TaskId, most: int) -> Look:
    (found,) = tasks(connection, [task])
    if found is None:
        raise TaskNotFound(f"there is no task {task}", task=task)
    run = connection.execute
    family = Family(list(run(Q.look_parents, (task, most))), list(run(Q.look_children, (task, most))))
    attempts = [Attempt._make(row) for row in run(Q.look_attempts, (task, most))]
    keys = {row[0] for row in run(Q.look_keys, (task,))} | {"spec"}
    streams = [row[0] for row in run(Q.look_streams, (task,))]
    return Look(found, family, attempts[::-1], sorted(keys), sorted(streams))


class Part(NamedTuple):
    """Which part of which value is asked for."""

    task: TaskId
    key: str
    start: int
    most: int
    fence: Fence | None


def value(connection: apsw.Connection, part: Part) -> Value:
    status = list(connection.execute(Q.value_status, (part.task,)))
    if not status:
        raise TaskNotFound(f"there is no task {part.task}", task=part.task)
    ended = is_final(status[0][0])
    if part.key.startswith(OUTPUT):
        return _output(connection, part, status[0][1], ended)
    for body, blob, size in connection.execute(Q.value_data, (part.start, part.most, part.task, part.key)):
        return Value(body, blob, part.start, size, ended)
    if part.key == "spec":
        for body, size in connection.execute(Q.value_spec, (part.start, part.most, part.task)):
            return Value(body, None, part.start, size, ended)
    return Value(None, None, part.start, 0, ended)


def _output(connection: apsw.Connection, part: Part, newest: int, ended: bool) -> Value:
    """One chunk of a stream, from `start` on; a hole (trimmed output) is stepped over."""
    run, stream, start = connection.execute, part.key.removeprefix(OUTPUT), part.start
    fence: int | None = part.fence
    if fence is None:
        ((fence,),) = run(Q.value_output_fence, (part.task, newest, stream))
    size = next((row[0] for row in run(Q.value_output_end, (part.task, fence, stream))), 0)
    for at, body, blob, length in run(Q.value_output, (part.task, fence, stream, start)):
        if start < at + length:
            piece = None if body is None else body[start - at : start - at + part.most]
            return Value(piece, blob, start - at if blob else start, size, ended)
    for at, body, blob, _ in run(Q.value_output_next, (part.task, fence, stream, start)):
        return Value(None if body is None else body[: part.most], blob, 0 if blob else at, size, ended)
    return Value(None, None, start, size, ended)


def events(connection: apsw.Connection, after: Position, most: int) -> list[Event]:
    return [
        Event(position, at, Fact(fact), queue, holder, _entries.decode(entries), subject)
        for position, at, fact, queue, holder, entries, subject in connection.execute(Q.events_read, (after, most))
    ]


def counts(connection: apsw.Connection) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
    run = connection.execute
    by_queue: dict[int, dict[int, int]] = {row[0]: {} for row in run(Q.queue_all)}
    told: dict[QueueId, dict[str, int]] = {QueueId(queue): {} for queue in by_queue}
    for queue, status, n in run(Q.tally_all):
        if queue in by_queue and n:
            by_queue[queue][status] = n
    for queue, fact, n in run(Q.counter_all):
        if queue in told and n:
            told[queue][fact] = n
    return [Counts(QueueId(queue), by, sum(by.values())) for queue, by in by_queue.items()], told


def directory(connection: apsw.Connection) -> Directory:
    run = connection.execute
    ((tag, *_, next_event),) = run(Q.store_read)
    queues = [shelved_from(row).queue for row in run(Q.queue_all)]
    return Directory(queues, [node_from(row) for row in run(Q.node_all)], tag, Position(next_event - 1))


def audit(connection: apsw.Connection, after: Position, most: int) -> list[AuditLine]:
    return [
        AuditLine(Position(row[0]), Wall(row[1]), *row[2:]) for row in connection.execute(Q.audit_read, (after, most))
    ]
