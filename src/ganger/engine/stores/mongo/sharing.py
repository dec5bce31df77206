"""Life with strangers: tasks of a shared queue are taken as they take them.

Strangers know nothing of steps. They insert tasks, take them with one conditional write, and end them with another. So
in a queue that they share, a task is taken ahead of the step by that same conditional write, marked with the step's
seal; the step then writes the lease on the condition that the mark is still there. If the step does not come about,
the marked tasks are given back as they were, by it or, if its process died, by upkeep.

A document without `ganger.id` is a stranger's: see `strange.py`. When it is taken, it gets the rest of what a task
needs, in the one attribute that is ours, and nothing else of it is touched. From then on its status and its node are
still anybody's: what a stranger has made of it is found out by upkeep, and told then.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from ganger.core.ids import TaskId
from ganger.core.lane import Lane
from ganger.core.queue import Sort
from ganger.core.showing import say_error
from ganger.core.state import LEASED, Status
from ganger.core.task import PLUGIN
from ganger.databases.mongo import Doc, date
from ganger.engine.stores.mongo.dialect import filter_unclaimed
from ganger.engine.stores.mongo.odd import guard_claim, judge_task
from ganger.engine.stores.mongo.row import QueueRow, Row
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.strange import STRANGE, recognise_task
from ganger.engine.stores.mongo.tables import SEEN, TASKS

FEW = 2
"""So many tasks are taken one by one: asking for them together is not quicker."""


class Taking(NamedTuple):
    """Who takes, and what he makes of the status."""

    node: str
    status: int


def lane_of(row: QueueRow) -> Lane:
    return Lane(f"{PLUGIN}{row.queue.policy.plugin}")


async def grab(step: Step, queue: QueueRow, taking: Taking, most: int) -> list[Row]:
    """Take at most so many tasks of a shared queue, in the order of their object ids."""
    order = -1 if queue.queue.policy.sort == Sort.LIFO else 1
    where = filter_free(step, queue)
    found = await (_take_few if most <= FEW else _take_many)(step, where, taking, order, most)
    return await _know_all(step, found, queue, taking)


def filter_free(step: Step, queue: QueueRow) -> Doc:
    """Which tasks of a shared queue anybody may take."""
    free: Doc = {"node": filter_unclaimed(step.dialect), "status": int(Status.QUEUED), "queue": queue.id}
    if queue.queue.policy.max_per_key is not None:
        free["ganger.parked"] = {"$ne": True}
    return {**free, **guard_claim(step.watch.odd)}


async def find_waiting(step: Step, queues: Iterable[QueueRow]) -> set[Any]:
    """In which of these shared queues anything may be free, by the ids of their documents: one question for all."""
    ids = [row.id for row in queues]
    if not ids:
        return set()
    free = {"node": filter_unclaimed(step.dialect), "status": int(Status.QUEUED), "queue": {"$in": ids}}
    return set(await step.session.distinct(TASKS.name, "queue", free))


async def _take_few(step: Step, where: Doc, taking: Taking, order: int, most: int) -> list[Doc]:
    """One by one, as the protocol has it."""
    found: list[Doc] = []
    while len(found) < most and (document := await _take(step, where, taking, order)) is not None:
        found.append(document)
    if found:
        await step.session.make_sure(TASKS.name, len(found))
    return found


async def _take_many(step: Step, where: Doc, taking: Taking, order: int, most: int) -> list[Doc]:
    """The same condition and the same write for each, asked for together. Some of them may be gone by then."""
    fields = _claiming(step, taking)
    return await step.session.grab_many(TASKS.name, where, fields, (("_id", order),), most) or await _take_few(
        step, where, taking, order, FEW
    )


async def grab_one(step: Step, row: Row, taking: Taking) -> bool:
    """Take one task of a shared queue that the step knows."""
    where = {"_id": row.id, "node": filter_unclaimed(step.dialect), "status": int(Status.QUEUED)}
    found = await _take(step, where, taking, 1)
    if found is not None:
        step.draft.grab(TASKS, row.task.id, _guard(step, taking), {"ganger.pending": None})
    return found is not None


async def _take(step: Step, where: Doc, taking: Taking, order: int) -> Doc | None:
    return await step.session.grab(TASKS.name, where, _claiming(step, taking), (("_id", order),))


def _claiming(step: Step, taking: Taking) -> Doc:
    """What a claim writes."""
    return {"node": taking.node, "status": taking.status, "mtime": date(step.wall)}


def _guard(step: Step, taking: Taking) -> Doc:
    return {"status": taking.status, "node": taking.node, "ganger.pending": step.session.seal}


async def _know_all(step: Step, found: list[Doc], queue: QueueRow, taking: Taking) -> list[Row]:
    """The rows of what was taken. What makes no sense is given back, named, and passed over from now on."""
    await step.draft.load(SEEN, [document["_id"] for document in found if not _is_ours(document)])
    rows: list[Row] = []
    for document in found:
        row = await _know(step, document, queue)
        if row is None:
            await step.session.put_back(TASKS.name, document)
        else:
            rows.append(row)
            strange = {} if _is_ours(document) else STRANGE
            step.draft.grab(TASKS, row.task.id, {**strange, **_guard(step, taking)}, {"ganger.pending": None})
    return rows


def _is_ours(document: Doc) -> bool:
    inside = document.get("ganger")
    return isinstance(inside, dict) and "id" in inside


async def _know(step: Step, document: Doc, queue: QueueRow) -> Row | None:
    odd = judge_task(document)
    if odd is None:
        try:
            return step.draft.learn(TASKS, document) if _is_ours(document) else meet(step, document, queue)
        except (KeyError, TypeError, ValueError) as error:
            odd = f"what is ours in it cannot be read: {say_error(error, 60)}"
    step.watch.odd.name(TASKS.name, document["_id"], odd)
    return None


def meet(step: Step, document: Doc, queue: QueueRow) -> Row:
    """The row of a stranger's task, which gets its id now if nobody has seen it before."""
    seen = step.draft.at_hand(SEEN, document["_id"])
    task = TaskId(step.draw("task")) if seen is None else seen.task
    row = recognise_task(step.session, step.dialect, document, task, queue)
    if seen is not None:
        step.draft.drop(SEEN, seen.id)
    return row


async def held_by_stranger(step: Step, node: str) -> list[Row]:
    """The tasks that a node of this name has in hand without a lease of ours."""
    held = {"node": node, "status": {"$in": [int(status) for status in LEASED]}}
    found = await step.session.find(TASKS.name, {**held, "ganger.holder": None, "ganger.pending": None})
    queues = {row.id: row for row in await step.queues()} if found else {}
    await step.draft.load(SEEN, [document["_id"] for document in found])
    rows = [await _know(step, one, queues[one["queue"]]) for one in found if one.get("queue") in queues]
    return [row for row in rows if row is not None]
