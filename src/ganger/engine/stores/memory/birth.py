"""How a task comes into the store: its first row, its first status, the batch that it falls into."""

from typing import NamedTuple

from ganger.core.clock import Wall
from ganger.core.event import Entry, Fact
from ganger.core.graph import Fate, Join, fate
from ganger.core.ids import BatchId, Fence, Position, QueueId, TaskId
from ganger.core.lane import Lane
from ganger.core.state import Status
from ganger.core.task import SLOTLESS, SOURCE, SUCCESSOR, Kind, NewTask, Task
from ganger.engine.store import Datum
from ganger.engine.stores.memory.row import Decided, Link, QueueRow, Row, rank_of
from ganger.engine.stores.memory.step import NO_HOLDER, Step


class First(NamedTuple):
    """What only the store can say of a new task."""

    group: TaskId | None
    status: Status
    due: Wall | None


def bear(step: Step, task: TaskId, new: NewTask, group: TaskId | None, links: list[Link]) -> Row:
    """Store a new task with its edges. It is blocked if an edge is undecided or never holds, or if it takes no slot."""
    edges = sum(link.decided == Decided.OPEN for link in links)
    held = sum(link.decided == Decided.HELD for link in links)
    is_ready = new.kind not in SLOTLESS and _fate(new, links, edges, held) is Fate.READY
    due = _due(step, new, is_ready or not links)
    status = _status(step, is_ready, due)
    open_group = new.kind == Kind.GROUP and new.open_group
    row = Row(
        task=_task(step, task, new, First(group, status, due)),
        spec=new.spec,
        lane=Lane(new.kind, new.requires),
        rank=rank_of(task, step.queue(new.queue).policy.sort),
        edges=edges,
        held=held,
        open=open_group,
    )
    for link in links:
        step.tables.links.put(link.key, link)
    return step.put(row.counting())


def _fate(new: NewTask, links: list[Link], edges: int, held: int) -> Fate:
    if not links:
        return Fate.READY
    lost = new.join == Join.ALL and any(link.decided == Decided.NEVER for link in links)
    return fate(new.join, edges, -1 if lost else held)


def _due(step: Step, new: NewTask, counts_now: bool) -> Wall | None:
    if new.due is not None:
        return new.due
    return Wall(step.wall + new.delay) if new.delay and counts_now else None


def _status(step: Step, is_ready: bool, due: Wall | None) -> Status:
    if not is_ready:
        return Status.BLOCKED
    return Status.DELAYED if due is not None and due > step.wall else Status.QUEUED


def _task(step: Step, task: TaskId, new: NewTask, first: First) -> Task:
    return Task(
        id=task, position=Position(task), queue=new.queue, kind=new.kind, status=int(first.status),
        priority=new.priority, fence=Fence(0), holder=None, until=None, key=new.key, description=new.description,
        group=first.group, batch=_next_batch(step, new.queue), join=new.join, waits=0, kids=0, due=first.due,
        delay=new.delay, retry=new.retry, timeout=new.timeout, renewal=new.renewal, ttr=new.ttr,
        limit_key=new.limit_key, parked=False, avoid=None, requires=new.requires, kill=False, attempts=0,
        crashes=0, reserves=0, timeouts=0, releases=0, buries=0, kicks=0, percent=None, info=None, reason=None,
        branch=True, retry_of=new.retry_of, created=step.wall, modified=step.wall, started=None, ended=None,
        spec_size=len(new.spec),
    )  # fmt: skip


def _next_batch(step: Step, queue: QueueId) -> BatchId | None:
    """The batch that the queue fills now; a full one is followed by the next of the store's one sequence."""
    row = step.tables.queues[queue]
    size = row.queue.policy.batch_size
    if size is None:
        return None
    if row.batch is None or row.filled >= size:
        row = QueueRow(row.queue, BatchId(step.tables.draw("batch")), 0)
    step.tables.queues.put(queue, row._replace(filled=row.filled + 1))
    return row.batch


def become(step: Step, finished: TaskId) -> None:
    """The result of a task becomes a new task, where the queue's policy says so and that queue is still there."""
    old = step.tables.rows[finished].task
    target = step.queue(old.queue).policy.becomes
    if target is None or target not in step.tables.queues:
        return
    task = TaskId(step.tables.draw("task"))
    result = step.tables.datum(finished, "result") or Datum("result", b"")
    new = NewTask(target, old.kind, result.value or b"", old.priority, description=old.description)
    row = bear(step, task, new, None, [])
    if result.blob is not None:
        step.tables.put_datum(task, Datum("spec", None, result.blob, result.size))
        step.put(row.having(spec_size=result.size))
    step.tables.put_datum(task, Datum(SOURCE, b"%d" % finished))
    step.tables.put_datum(finished, Datum(SUCCESSOR, b"%d" % task))
    step.tell(Fact.SUBMITTED, target, NO_HOLDER, Entry(task, row.task.status))
