"""What strangers did meanwhile is found and told: tasks and queues that they made, and tasks that they moved.

Strangers insert tasks, take them and end them without a word. Upkeep looks, in the queues that they share, for tasks
whose status is not what the store wrote last, and lets follow what follows: events, the release of children, the end
of groups. It also keeps the counts that the protocol wants to see in its queues and nodes.
"""

from typing import Any, Final

from ganger.core.event import Entry
from ganger.core.node import Node
from ganger.core.showing import show
from ganger.core.state import Status, is_final
from ganger.core.task import PLUGIN
from ganger.databases.mongo import Doc
from ganger.engine.store import Tended
from ganger.engine.stores.mongo import cascade, choices
from ganger.engine.stores.mongo.dialect import Dialect, say_unclaimed
from ganger.engine.stores.mongo.discovering import fact_of, fold_seen, meet_queues, see_tasks
from ganger.engine.stores.mongo.odd import is_status, judge_task
from ganger.engine.stores.mongo.row import OWN, QueueRow, Row, Shown
from ganger.engine.stores.mongo.step import NO_HOLDER, Step
from ganger.engine.stores.mongo.tables import MARKS, MET, QUEUES, SHOWN, TASKS

_MOST_NAMED: Final = 100
STALE_GRAB: Final = 10_000
"""Milliseconds after which a task that was taken for a step is given back: its process is dead, or stopped."""


async def reconcile(step: Step, most: int) -> Tended:
    done = await meet_queues(step)
    if not step.indexed:
        return Tended(done, False, [])
    queues = await step.queues()
    for row in queues:
        if row.odd:
            step.watch.odd.name(QUEUES.name, row.id, "its name, constructor or a limit makes no sense")
    done += await see_tasks(step, queues, most)
    shared = [row for row in queues if row.shared]
    if shared:
        await _free_grabs(step)
        done += await _fold_moves(step, shared, most)
        done += await fold_seen(step, shared)
        await cascade.follow(step)
    if step.watch.counting.is_due():
        with step.watch.counting:
            await _count(step, queues)
    step.watch.found(step.session.head.step, nothing=not shared and not done)
    return Tended(done, done >= most, [])


async def _free_grabs(step: Step) -> None:
    """Give back what was taken for steps that never come about.

    One whose process was only stopped may still want in. Since it took its tasks another step has got in, so its own is
    refused: only then are they given back. Where nobody else takes a step this one does.
    """
    seals = await step.session.find_old_grabs(TASKS.name, step.wall - STALE_GRAB)
    refused = step.watch.find_refused(seals, step.session.head.step)
    if refused:
        free = {"node": say_unclaimed(step.dialect), "status": int(Status.QUEUED)}
        await step.session.give_back_of(TASKS.name, refused, free)
    if seals - refused:
        await step.draft.load(MARKS, ["grabs"])
        step.draft.put(MARKS, ("grabs", step.wall))


async def _fold_moves(step: Step, shared: list[QueueRow], most: int) -> int:
    """Tasks whose status a stranger changed: what the store knows of them is brought in line."""
    found = await step.session.find(TASKS.name, moved_by_others([row.id for row in shared]), most)
    sound = [document for document in found if not _is_odd(step, document)]
    for document in sound:
        _fold(step, step.draft.learn(TASKS, document))
    return len(sound)


def _is_odd(step: Step, document: Doc) -> bool:
    odd = judge_task(document)
    if odd is not None:
        step.watch.odd.name(TASKS.name, document["_id"], odd)
    return odd is not None


def moved_by_others(queues: list[Any]) -> Doc:
    """Which tasks of these queues have not the status that the store wrote last.

    Said code by code, so that the index leads to those alone and past the thousands that merely wait.
    """
    codes = [int(status) for status in Status if status <= 0]
    moved: list[Doc] = [{"ganger.known": code, "status": {"$ne": code, "$type": "number"}} for code in codes]
    strange = {"ganger.known": {"$lt": min(codes)}, "$expr": {"$ne": ["$status", "$ganger.known"]}}
    # What has no number there is odd, and would be found again and again.
    where: Doc = {"queue": {"$in": queues}, "ganger.pending": None, "status": {"$type": "number"}}
    return {"$or": [{**where, **each} for each in (*moved, strange)]}


def _fold(step: Step, row: Row) -> None:
    task = row.task
    final = is_final(task.status)
    ended = step.wall if final else None
    started = step.wall if task.status == Status.RUNNING and task.started is None else task.started
    step.put(row.having(holder=None, until=None, kill=False, started=started, ended=ended, modified=step.wall))
    if final:
        step.ended.append(task.id)
    step.tell(fact_of(task.status), task.queue, NO_HOLDER, Entry(task.id, task.status, task.fence, f"by {row.node}"))


async def _count(step: Step, queues: list[QueueRow]) -> None:
    """Bring the protocol's counts in line with what is there, in our queues and in those that a node here works on."""
    counted = await step.session.count_by(TASKS.name, "queue", "status")
    if any(not is_status(status) for by_status in counted.values() for status in by_status):
        await _name_odd(step)
    live = [row.node for row in await step.draft.select(choices.here())]
    for row in queues:
        is_counted = step.draft.at_hand(MET, row.id) is None or any(_runs(node, row) for node in live)
        if step.dialect is Dialect.PLAIN and is_counted and not row.odd:
            by_status = _sound(counted.get(row.id, {}))
            todo, total = sum(n for status, n in by_status.items() if status <= 0), sum(by_status.values())
            if (row.todo, row.total) != (todo, total):
                await step.session.set_fields(QUEUES.name, row.id, {"count_todo": todo, "count_total": total})
    await step.draft.load(SHOWN, [node.name for node in live])
    for node in live:
        shown = step.draft.at_hand(SHOWN, node.name)
        if shown is not None and shown.ours:
            taken = [row for row in queues if _runs(node, row)]
            _show_queues(step, shown, [_queue_object(row, _sound(counted.get(row.id, {}))) for row in taken])


def _runs(node: Node, row: QueueRow) -> bool:
    """Does the node take tasks of the queue? Of a plugin that it has not it takes none."""
    kind = f"{PLUGIN}{row.queue.policy.plugin}" if row.shared else None
    is_wanted = node.takes_queue(row.queue.name) and row.queue.takes_node(node.name)
    return is_wanted and not row.odd and (kind is None or node.takes_kind(kind))


def _sound(by_status: dict[Any, int]) -> dict[int, int]:
    return {status: n for status, n in by_status.items() if is_status(status)}


async def _name_odd(step: Step) -> None:
    odd = {"$or": [{"status": {"$not": {"$type": "number"}}}, {"status": {"$type": "array"}}]}
    for document in await step.session.find(TASKS.name, odd, _MOST_NAMED, ("status",)):
        step.watch.odd.name(TASKS.name, document["_id"], f"its status is {show(document.get('status'))}")


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
