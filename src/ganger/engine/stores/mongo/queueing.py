"""Queues: made, changed, paused and deleted."""

from typing import Any

from ganger.core.errors import BadInput, Conflict, QueueInUse, QueueNotFound
from ganger.core.event import Entry, Fact
from ganger.core.ids import QueueId
from ganger.core.queue import Policy, Queue
from ganger.core.state import WAITING, move
from ganger.engine.store import QUEUES_TOPIC, Configured, QueueChange
from ganger.engine.stores.mongo import cascade, choices
from ganger.engine.stores.mongo.dialect import Dialect
from ganger.engine.stores.mongo.moving import apply
from ganger.engine.stores.mongo.odd import judge_task
from ganger.engine.stores.mongo.removing import forget
from ganger.engine.stores.mongo.row import QueueRow, Row, rank_of
from ganger.engine.stores.mongo.sharing import meet
from ganger.engine.stores.mongo.step import NO_HOLDER, Step
from ganger.engine.stores.mongo.strange import STRANGE
from ganger.engine.stores.mongo.tables import QUEUES, SEEN, TASKS


async def configure_queue(step: Step, change: QueueChange) -> Configured:
    step.wake(QUEUES_TOPIC)
    if not change.id:
        return Configured(queue=await _make(step, change))
    row = await step.queue_row(change.id)
    if row is None:
        raise QueueNotFound(f"there is no queue {change.id}", queue=change.id)
    if change.delete:
        return Configured(queue=await _delete(step, row, change.drop))
    return Configured(queue=await _change(step, row, change))


async def _make(step: Step, change: QueueChange) -> Queue:
    if change.name is None or change.delete:
        raise BadInput("a new queue needs a name")
    if change.if_absent:
        for row in await step.queues():
            if row.queue.name == change.name and not row.odd:
                return row.queue
    queue = QueueId(step.draw("queue"))
    face = step.face(queue)
    return await _change(step, QueueRow(Queue(queue, change.name, Policy()), face), change)


async def _change(step: Step, row: QueueRow, change: QueueChange) -> Queue:
    if change.name is not None and step.dialect is Dialect.LATER:
        await _refuse_namesake(step, row, change.name)
    given: dict[str, Any] = {"name": change.name, "policy": change.policy, "paused_until": change.paused_until}
    queue = row.queue._replace(**{field: value for field, value in given.items() if value is not None})
    step.draft.put(QUEUES, row._replace(queue=queue))
    if change.policy is not None:
        if queue.policy.sort != row.queue.policy.sort:
            await _sort_anew(step, queue)
        await step.recheck_limits(queue.id)
    step.wake_queue(queue.id)
    step.tell(Fact.QUEUE_CHANGED, queue.id, NO_HOLDER, subject=queue.name)
    return queue


async def _refuse_namesake(step: Step, row: QueueRow, name: str) -> None:
    """Programs of the later dialect make names unique by an index, which would not let a second one in."""
    known = [other.id for other in await step.draft.select(choices.named_queue(name))]
    found = [document["_id"] for document in await step.session.find(QUEUES.name, {"name": name, "ganger.id": None})]
    if any(other != row.id for other in (*known, *found)):
        raise Conflict(
            f"a queue is called {name!r} already, and in this database names are unique: use another", name=name
        )


async def _sort_anew(step: Step, queue: Queue) -> None:
    for row in await step.draft.select(choices.of_queue(queue.id)):
        rank = rank_of(row.task.id, queue.policy.sort)
        if rank != row.rank:
            step.put(row._replace(rank=rank))


async def _adopt_all(step: Step, row: QueueRow) -> None:
    """What strangers put into the queue goes with it like the rest: they are taken to be ours, for this step."""
    found = await step.session.find(TASKS.name, {"queue": row.id, **STRANGE}) if row.shared else []
    await step.draft.load(SEEN, [document["_id"] for document in found])
    for document in found:
        if judge_task(document) is None:
            step.put(meet(step, document, row))


async def _delete(step: Step, place: QueueRow, drop: bool) -> Queue:
    """Remove the queue and all its tasks; those that wait are cancelled first, so that their children learn of it."""
    await _adopt_all(step, place)
    queue = place.queue
    waiting = await step.draft.select(choices.open_of_queue(queue.id))
    stubborn = [row for row in waiting if not drop or row.task.status not in WAITING]
    if stubborn:
        raise QueueInUse(f"queue {queue.id} has {len(stubborn)} tasks that are not final", queue=queue.id)
    for row in waiting:
        await apply(step, move(row.task.id, "cancel")._replace(reason="its queue was deleted"))
    await cascade.follow(step)
    for row in await step.draft.select(choices.of_queue(queue.id)):
        await _remove(step, row)
    step.draft.drop(QUEUES, queue.id)
    step.tell(Fact.QUEUE_REMOVED, queue.id, NO_HOLDER, subject=queue.name)
    return queue


async def _remove(step: Step, row: Row) -> None:
    await forget(step, row)
    step.tell(Fact.REMOVED, row.task.queue, NO_HOLDER, Entry(row.task.id, row.task.status, row.task.fence))
