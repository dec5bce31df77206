"""What strangers did meanwhile is found and told: tasks and queues that they made, and tasks that they moved.

Strangers insert tasks, take them and end them without a word. Upkeep looks, in the queues that they share, for tasks
whose status is not what the store wrote last, and lets follow what follows: events, the release of children, the end
of groups. It also keeps the counts that the protocol wants to see in its queues and nodes.
"""

from typing import Any, Final

from ganger.core.event import Entry, Fact
from ganger.core.state import LEASED, Status, is_final
from ganger.databases.mongo import Doc
from ganger.engine.store import QUEUES_TOPIC, Tended
from ganger.engine.stores.mongo import cascade, choices, sharing
from ganger.engine.stores.mongo.dialect import say_unclaimed
from ganger.engine.stores.mongo.row import OWN, QueueRow, Row, Shown
from ganger.engine.stores.mongo.step import NO_HOLDER, Step
from ganger.engine.stores.mongo.tables import QUEUES, SHOWN, TASKS

STALE_GRAB: Final = 60_000
"""Milliseconds after which a task that was taken for a step is given back: that step never came about."""


async def reconcile(step: Step, most: int) -> Tended:
    done = await sharing.adopt_queues(step)
    if done:
        step.wake(QUEUES_TOPIC)
    queues = await step.draft.select(choices.all_queues())
    done += await _adopt_tasks(step, queues, most)
    shared = [row for row in queues if row.shared]
    if shared:
        free = {"node": say_unclaimed(step.dialect), "status": int(Status.QUEUED)}
        await step.session.give_back_old(TASKS.name, step.wall - STALE_GRAB, free)
        done += await _fold_moves(step, shared, most)
    if step.pace.is_due():
        with step.pace:
            await _count(step, queues)
    return Tended(done, done >= most, [])


async def _adopt_tasks(step: Step, queues: list[QueueRow], most: int) -> int:
    """Know the tasks that strangers made; not those with a code by which nobody is to touch them."""
    by_id = {row.id: row for row in queues}
    strange: Doc = {"ganger.id": None, "ganger.pending": None, "queue": {"$in": list(by_id)}}
    found = await step.session.find(TASKS.name, {**strange, "status": {"$gte": int(Status.ORPHANED)}}, most)
    for document in sorted(found, key=lambda document: str(document["_id"])):
        row = sharing.adopt_task(step, document, by_id[document["queue"]])
        step.tell(Fact.SUBMITTED, row.task.queue, NO_HOLDER, Entry(row.task.id, row.task.status))
        step.wake_queue(row.task.queue)
    return len(found)


async def _fold_moves(step: Step, shared: list[QueueRow], most: int) -> int:
    """Tasks whose status a stranger changed: what the store knows of them is brought in line."""
    found = await step.session.find(TASKS.name, moved_by_others([row.id for row in shared]), most)
    for document in found:
        row = step.draft.learn(TASKS, document)
        _fold(step, row)
    await cascade.follow(step)
    return len(found)


def moved_by_others(queues: list[Any]) -> Doc:
    """Which tasks of these queues have not the status that the store wrote last.

    Said code by code, so that the index leads to those alone and past the thousands that merely wait.
    """
    codes = [int(status) for status in Status if status <= 0]
    moved: list[Doc] = [{"ganger.known": code, "status": {"$ne": code}} for code in codes]
    strange = {"ganger.known": {"$lt": min(codes)}, "$expr": {"$ne": ["$status", "$ganger.known"]}}
    where: Doc = {"queue": {"$in": queues}, "ganger.pending": None}
    return {"$or": [{**where, **each} for each in (*moved, strange)]}


def _fold(step: Step, row: Row) -> None:
    task = row.task
    final = is_final(task.status)
    ended = step.wall if final else None
    started = step.wall if task.status == Status.RUNNING and task.started is None else task.started
    step.put(row.having(holder=None, until=None, kill=False, started=started, ended=ended, modified=step.wall))
    if final:
        step.ended.append(task.id)
    step.tell(_fact_of(task.status), task.queue, NO_HOLDER, Entry(task.id, task.status, task.fence, f"by {row.node}"))


def _fact_of(status: int) -> Fact:
    if is_final(status):
        return Fact.SETTLED
    if status in LEASED:
        return Fact.CLAIMED if status == Status.CLAIMED else Fact.STARTED
    return Fact.EDITED


async def _count(step: Step, queues: list[QueueRow]) -> None:
    """Bring the protocol's counts in line with what is there."""
    counted = await step.session.count_by(TASKS.name, "queue", "status")
    for row in queues:
        by_status = counted.get(row.id, {})
        todo = sum(n for status, n in by_status.items() if status <= 0)
        total = sum(by_status.values())
        if (row.todo, row.total) != (todo, total):
            step.draft.put(QUEUES, row._replace(todo=todo, total=total))
    live = [row.node for row in await step.draft.select(choices.here())]
    await step.draft.load(SHOWN, [node.name for node in live])
    for node in live:
        shown = step.draft.at_hand(SHOWN, node.name)
        if shown is not None and shown.ours:
            taken = [row for row in queues if node.takes_queue(row.queue.name) and row.queue.takes_node(node.name)]
            _show_queues(step, shown, [_queue_object(row, counted.get(row.id, {})) for row in taken])


def _show_queues(step: Step, shown: Shown, queues: list[Doc]) -> None:
    if list(shown.queues) != queues:
        step.draft.put(SHOWN, shown._replace(queues=tuple(queues)))


def _queue_object(row: QueueRow, by_status: dict[int, int]) -> Doc:
    """A queue as the protocol wants it in a node's document."""
    doing = by_status.get(Status.CLAIMED, 0) + by_status.get(Status.RUNNING, 0)
    todo = sum(n for status, n in by_status.items() if status <= 0)
    return {
        "id": str(row.id),
        "name": row.queue.name,
        "constructor": row.queue.policy.plugin or OWN,
        "maxthreads": row.queue.policy.max_per_node,
        "tasks_todo": todo - doing,
        "tasks_doing": doing,
        "tasks_done": sum(by_status.values()) - todo,
        "preemptive": 1,
        "tasks_backfill": 0,
    }
