"""Queues: made, changed, paused and deleted."""

from typing import Any

from ganger.core.errors import BadInput, QueueInUse, QueueNotFound
from ganger.core.event import Entry, Fact
from ganger.core.ids import QueueId, TaskId
from ganger.core.queue import Policy, Queue
from ganger.core.state import WAITING, is_final, move
from ganger.engine.store import QUEUES_TOPIC, Configured, QueueChange
from ganger.engine.stores.memory import graph
from ganger.engine.stores.memory.moves import apply
from ganger.engine.stores.memory.removal import forget
from ganger.engine.stores.memory.row import QueueRow, Row, rank_of
from ganger.engine.stores.memory.step import NO_HOLDER, Step


def configure_queue(step: Step, change: QueueChange) -> Configured:
    step.wake(QUEUES_TOPIC)
    if not change.id:
        return Configured(queue=_make(step, change))
    if change.id not in step.tables.queues:
        raise QueueNotFound(f"there is no queue {change.id}", queue=change.id)
    if change.delete:
        return Configured(queue=_delete(step, change.id, change.drop))
    return Configured(queue=_change(step, change))


def _make(step: Step, change: QueueChange) -> Queue:
    if change.name is None or change.delete:
        raise BadInput("a new queue needs a name")
    if change.if_absent:
        for queue in sorted(step.tables.queues):
            if step.tables.queues[queue].queue.name == change.name:
                return step.tables.queues[queue].queue
    queue = QueueId(step.tables.draw("queue"))
    step.tables.queues.put(queue, QueueRow(Queue(queue, change.name, Policy())))
    return _change(step, change._replace(id=queue))


def _change(step: Step, change: QueueChange) -> Queue:
    row = step.tables.queues[change.id]
    given: dict[str, Any] = {"name": change.name, "policy": change.policy, "paused_until": change.paused_until}
    queue = row.queue._replace(**{field: value for field, value in given.items() if value is not None})
    step.tables.queues.put(queue.id, row._replace(queue=queue))
    if change.policy is not None:
        _sort_anew(step, queue)
        step.recheck_limits(queue.id)
    step.wake_queue(queue.id)
    step.tell(Fact.QUEUE_CHANGED, queue.id, NO_HOLDER, subject=queue.name)
    return queue


def _sort_anew(step: Step, queue: Queue) -> None:
    for task in _tasks_of(step, queue.id):
        row = step.tables.rows[task]
        rank = rank_of(task, queue.policy.sort)
        if rank != row.rank:
            step.put(row._replace(rank=rank))


def _tasks_of(step: Step, queue: QueueId) -> list[TaskId]:
    names = [name for name in step.tables.statuses.names() if name[0] == queue]
    return [task for name in names for task in step.tables.statuses.bucket(name)]


def _delete(step: Step, queue: QueueId, drop: bool) -> Queue:
    """Remove the queue and all its tasks; those that wait are cancelled first, so that their children learn of it."""
    open_tasks = [task for task in _tasks_of(step, queue) if not is_final(step.tables.rows[task].task.status)]
    stubborn = [task for task in open_tasks if not drop or step.tables.rows[task].task.status not in WAITING]
    if stubborn:
        raise QueueInUse(f"queue {queue} has {len(stubborn)} tasks that are not final", queue=queue)
    for task in sorted(open_tasks):
        apply(step, move(task, "cancel")._replace(reason="its queue was deleted"))
    graph.follow(step)
    for task in sorted(_tasks_of(step, queue)):
        _remove(step, step.tables.rows[task])
    gone = step.queue(queue)
    step.tables.queues.drop(queue)
    step.tell(Fact.QUEUE_REMOVED, queue, NO_HOLDER, subject=gone.name)
    return gone


def _remove(step: Step, row: Row) -> None:
    forget(step, row)
    step.tell(Fact.REMOVED, row.task.queue, NO_HOLDER, Entry(row.task.id, row.task.status, row.task.fence))
