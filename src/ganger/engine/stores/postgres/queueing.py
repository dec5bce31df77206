"""How queues are made, changed, paused and deleted."""

from ganger.core.clock import Wall
from ganger.core.errors import BadInput, QueueInUse, QueueNotFound
from ganger.core.event import Fact
from ganger.core.ids import QueueId, TaskId
from ganger.core.queue import Policy, Queue, Sort
from ganger.core.state import LEASED, WAITING, is_final, move
from ganger.engine.store import QUEUES_TOPIC, QueueChange
from ganger.engine.stores.postgres.dropping import drop, leaving, tell_children
from ganger.engine.stores.postgres.guard import read_rows
from ganger.engine.stores.postgres.limits import refill
from ganger.engine.stores.postgres.moving import apply
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import policy_text
from ganger.engine.stores.postgres.step import Step

_AT_ONCE = 1_000


async def change_queue(step: Step, change: QueueChange) -> Queue:
    step.session.wake(QUEUES_TOPIC)
    if change.id == 0:
        return await _make(step, change)
    queue = step.shelf.queues.get(change.id)
    if queue is None:
        raise QueueNotFound(f"there is no queue {change.id}", queue=change.id)
    if change.delete:
        return await _delete(step, queue, change.drop)
    return await _change(step, queue, change)


async def _make(step: Step, change: QueueChange) -> Queue:
    if change.name is None:
        raise BadInput("a new queue needs a name")
    if change.if_absent:
        for queue in step.shelf.queues.values():
            if queue.name == change.name:
                return queue
    policy, paused = change.policy or Policy(), change.paused_until or Wall(0)
    shelf = step.change_shelf()
    number = await step.one(Q.queue_insert, change.name, policy_text(policy), paused)
    queue = Queue(QueueId(number), change.name, policy, paused)
    shelf.queues[number] = queue
    step.tell_about(Fact.QUEUE_CHANGED, number, queue.name)
    return queue


async def _change(step: Step, before: Queue, change: QueueChange) -> Queue:
    queue = before._replace(
        name=before.name if change.name is None else change.name,
        policy=before.policy if change.policy is None else change.policy,
        paused_until=before.paused_until if change.paused_until is None else change.paused_until,
    )
    step.change_shelf().queues[queue.id] = queue
    await step.run(Q.queue_update, queue.name, policy_text(queue.policy), queue.paused_until, queue.id)
    await _follow_policy(step, before, queue)
    step.tell_about(Fact.QUEUE_CHANGED, queue.id, queue.name)
    step.woken.add(queue.id)
    return queue


async def _follow_policy(step: Step, before: Queue, queue: Queue) -> None:
    """Tasks that wait stand as the new policy has it."""
    turned = (before.policy.sort == Sort.LIFO) != (queue.policy.sort == Sort.LIFO)
    if turned:
        await step.run(Q.queue_turn, queue.id)
    if turned or before.policy.max_per_key != queue.policy.max_per_key:
        step.keys |= {(queue.id, key) for (key,) in await step.run(Q.queue_keys, queue.id)}
    await refill(step)


async def _delete(step: Step, queue: Queue, also_waiting: bool) -> Queue:
    """The queue and all its tasks; those that wait are cancelled first, so that their children learn of it."""
    shelf = step.change_shelf()
    await _refuse_used(step, queue, also_waiting)
    while ids := [number for (number,) in await step.run(Q.queue_ids, queue.id, _AT_ONCE)]:
        rows = await read_rows(step, ids)
        waiting = [move(TaskId(row.id), "cancel") for row in rows.values() if row.status in WAITING]
        await apply(step, [one._replace(reason="its queue was deleted") for one in waiting])
        await tell_children(step, ids)
        await drop(step, [leaving(row) for row in (await read_rows(step, ids)).values()])
    await step.run(Q.queue_delete, queue.id)
    del shelf.queues[queue.id]
    step.keys = {(number, key) for number, key in step.keys if number != queue.id}
    step.woken.discard(queue.id)
    step.freed.discard(queue.id)
    step.tell_about(Fact.QUEUE_REMOVED, queue.id, queue.name)
    return queue


async def _refuse_used(step: Step, queue: Queue, also_waiting: bool) -> None:
    rows = await step.run(Q.queue_statuses, queue.id)
    statuses = {int(name) for (name,) in rows}
    if statuses & LEASED or (not also_waiting and any(not is_final(status) for status in statuses)):
        raise QueueInUse(
            f"queue {queue.name!r} has tasks that are not final; cancel them, or delete with drop once none runs",
            queue=queue.id,
        )
