"""How queues are made, changed, paused and deleted."""

from ganger.core.clock import Wall
from ganger.core.errors import BadInput, QueueInUse, QueueNotFound
from ganger.core.event import Fact
from ganger.core.ids import QueueId, TaskId
from ganger.core.queue import Policy, Queue, Sort
from ganger.core.state import LEASED, WAITING, is_final, move
from ganger.engine.store import QUEUES_TOPIC, QueueChange
from ganger.engine.stores.sqlite.dropping import drop, tell_children
from ganger.engine.stores.sqlite.limits import refill
from ganger.engine.stores.sqlite.moving import Row, apply
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.rows import Shelved
from ganger.engine.stores.sqlite.shelf import policy_text
from ganger.engine.stores.sqlite.step import Step

_AT_ONCE = 1_000


def change_queue(step: Step, change: QueueChange) -> Queue:
    step.session.wake(QUEUES_TOPIC)
    if change.id == 0:
        return _make(step, change)
    shelved = step.shelf.queues.get(change.id)
    if shelved is None:
        raise QueueNotFound(f"there is no queue {change.id}", queue=change.id)
    if change.delete:
        return _delete(step, shelved.queue, change.drop)
    return _change(step, shelved, change)


def _make(step: Step, change: QueueChange) -> Queue:
    if change.name is None:
        raise BadInput("a new queue needs a name")
    if change.if_absent:
        for shelved in step.shelf.queues.values():
            if shelved.queue.name == change.name:
                return shelved.queue
    policy = change.policy or Policy()
    ((number,),) = step.run(Q.queue_insert, (change.name, policy_text(policy)))
    queue = Queue(QueueId(number), change.name, policy, change.paused_until or Wall(0))
    if queue.paused_until:
        step.run(Q.queue_update, (queue.name, policy_text(policy), queue.paused_until, number))
    step.shelf.put_queue(step.session, Shelved(queue, 0, 0), number)
    step.tell_about(Fact.QUEUE_CHANGED, number, queue.name)
    return queue


def _change(step: Step, shelved: Shelved, change: QueueChange) -> Queue:
    before = shelved.queue
    queue = before._replace(
        name=before.name if change.name is None else change.name,
        policy=before.policy if change.policy is None else change.policy,
        paused_until=before.paused_until if change.paused_until is None else change.paused_until,
    )
    step.run(Q.queue_update, (queue.name, policy_text(queue.policy), queue.paused_until, queue.id))
    step.shelf.put_queue(step.session, shelved._replace(queue=queue), queue.id)
    _follow_policy(step, before, queue)
    step.tell_about(Fact.QUEUE_CHANGED, queue.id, queue.name)
    step.woken.add(queue.id)
    return queue


def _follow_policy(step: Step, before: Queue, queue: Queue) -> None:
    """Tasks that wait stand as the new policy has it."""
    turned = (before.policy.sort == Sort.LIFO) != (queue.policy.sort == Sort.LIFO)
    if turned:
        step.run(Q.queue_turn, (queue.id,))
    if turned or before.policy.max_per_key != queue.policy.max_per_key:
        step.keys |= {(queue.id, key) for (key,) in step.run(Q.queue_keys, (queue.id,))}
    refill(step)


def _delete(step: Step, queue: Queue, also_waiting: bool) -> Queue:
    """The queue and all its tasks; those that wait are cancelled first, so that their children learn of it."""
    statuses = {status for (number, status), n in step.shelf.tally.items() if number == queue.id and n}
    if statuses & LEASED or (not also_waiting and any(not is_final(status) for status in statuses)):
        raise QueueInUse(
            f"queue {queue.name!r} has tasks that are not final; cancel them, or delete with drop once none runs",
            queue=queue.id,
        )
    while rows := _rows(step, queue):
        waiting = [move(TaskId(row.id), "cancel") for row in rows if row.status in WAITING]
        apply(step, [one._replace(reason="its queue was deleted") for one in waiting])
        tell_children(step, [row.id for row in rows])
        drop(step, _rows(step, queue, rows[-1].id))
    _drop_queue(step, queue)
    return queue


def _rows(step: Step, queue: Queue, last: int | None = None) -> list[Row]:
    rows = (Row._make(row) for row in step.run(Q.queue_ids, (queue.id, 0, _AT_ONCE)))
    return [row for row in rows if last is None or row.id <= last]


def _drop_queue(step: Step, queue: Queue) -> None:
    step.run(Q.queue_delete, (queue.id,))
    step.shelf.forget_queue(step.session, queue.id)
    step.keys = {(number, key) for number, key in step.keys if number != queue.id}
    step.woken.discard(queue.id)
    step.freed.discard(queue.id)
    step.tell_about(Fact.QUEUE_REMOVED, queue.id, queue.name)
