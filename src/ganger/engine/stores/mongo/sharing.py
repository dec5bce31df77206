"""Life with strangers: their tasks and queues are adopted, and tasks of a shared queue are taken as they take them.

Strangers know nothing of steps. They insert tasks, take them with one conditional write, and end them with another. So
in a queue that they share, a task is taken ahead of the step by that same conditional write, marked with the step's
seal; the step then writes the lease on the condition that the mark is still there. If the step does not come about,
the marked tasks are given back, by it or, if its process died, by upkeep.

A document without `ganger.id` is a stranger's. It is adopted when it is first seen: it gets an id and the rest of what
a task needs, in the one attribute that is ours, and nothing else of it is touched. From then on its status and its node
are still anybody's: what a stranger has made of it is found out by upkeep, and told then.
"""

from typing import Any, Final, NamedTuple

from ganger.core.clock import Wall
from ganger.core.ids import QueueId, TaskId
from ganger.core.lane import Lane
from ganger.core.queue import OnLost, Policy, Queue, Sort
from ganger.core.state import LEASED, Status, is_final
from ganger.core.task import PLUGIN, Kind, NewTask
from ganger.databases.mongo import Doc, date, wall_of
from ganger.engine.stores.mongo import choices
from ganger.engine.stores.mongo.birth import First, make_task
from ganger.engine.stores.mongo.codec import said_policy
from ganger.engine.stores.mongo.dialect import filter_unclaimed, read_queue, read_task
from ganger.engine.stores.mongo.row import UNCLAIMED, QueueRow, Row, rank_of
from ganger.engine.stores.mongo.spec import Spec
from ganger.engine.stores.mongo.step import Step
from ganger.engine.stores.mongo.tables import QUEUES, TASKS

_STRANGE: Final[Doc] = {"ganger.id": {"$exists": False}}
FEW: Final = 2
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
    where: Doc = {"node": filter_unclaimed(step.dialect), "status": int(Status.QUEUED), "queue": queue.id}
    if queue.queue.policy.max_per_key is not None:
        where["ganger.parked"] = {"$ne": True}
    found = await (_take_few if most <= FEW else _take_many)(step, where, taking, order, most)
    return [_know(step, document, queue, taking) for document in found]


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


def _know(step: Step, found: Doc, queue: QueueRow, taking: Taking) -> Row:
    if "id" in found.get("ganger", ()):
        row = step.draft.learn(TASKS, found)
        step.draft.grab(TASKS, row.task.id, _guard(step, taking), {"ganger.pending": None})
        return row
    row = _adopt(step, found, queue)
    step.draft.grab(TASKS, row.task.id, {**_STRANGE, **_guard(step, taking)}, {"ganger.pending": None})
    return row


def adopt_task(step: Step, found: Doc, queue: QueueRow) -> Row:
    """Know a stranger's task from now on, unless he changes it meanwhile."""
    row = _adopt(step, found, queue)
    guard = {**_STRANGE, "status": found["status"], "node": found.get("node")}
    step.draft.grab(TASKS, row.task.id, guard, {})
    return row


def _adopt(step: Step, found: Doc, queue: QueueRow) -> Row:
    """The row of a stranger's task, from now on."""
    task, said = TaskId(step.draw("task")), read_task(step.dialect, found)
    kind = f"{PLUGIN}{queue.queue.policy.plugin}" if queue.shared else str(Kind.COMMAND)
    status, created = int(found["status"]), Wall(wall_of(found.get("ctime"), step.wall))
    spec = Spec(said.get("parameters") or {})
    new = NewTask(queue.queue.id, kind, spec.to_bytes(kind))
    born = make_task(task, new, First(None, status, None, None, created))
    modified = Wall(wall_of(found.get("mtime"), step.wall))
    row = Row(
        task=born._replace(modified=modified, ended=modified if is_final(status) else None),
        spec=Spec(said.get("parameters")),
        lane=Lane(kind),
        rank=rank_of(task, queue.queue.policy.sort),
        id=found["_id"],
        queue=queue.id,
        node=said.get("node", UNCLAIMED),
        stdout=found.get("stdout"),
        stderr=found.get("stderr"),
        known=status,
    )
    return step.draft.adopt(TASKS, found["_id"], row, dict(_STRANGE))


async def held_by_stranger(step: Step, node: str) -> list[Row]:
    """The tasks that a node of this name has in hand without a lease of ours."""
    held = {"node": node, "status": {"$in": [int(status) for status in LEASED]}}
    found = await step.session.find(TASKS.name, {**held, "ganger.holder": None, "ganger.pending": None})
    queues = {row.id: row for row in await step.draft.select(choices.all_queues())} if found else {}
    rows = [_meet(step, document, queues) for document in found]
    return [row for row in rows if row is not None]


def _meet(step: Step, found: Doc, queues: dict[Any, QueueRow]) -> Row | None:
    """The row of a document, adopted if need be; None in a queue that is not there."""
    if "id" in found.get("ganger", ()):
        return step.draft.learn(TASKS, found)
    queue = queues.get(found.get("queue"))
    return None if queue is None else adopt_task(step, found, queue)


async def adopt_queues(step: Step) -> int:
    """Know the queues that strangers made."""
    found = await step.session.find(QUEUES.name, {**_STRANGE, "name": {"$type": "string"}}, 100)
    for document in found:
        queue = Queue(QueueId(step.draw("queue")), document["name"], _policy_of(step, document))
        row = QueueRow(queue, document["_id"], None, 0, document.get("count_todo"), document.get("count_total"))
        step.draft.adopt(QUEUES, document["_id"], row, dict(_STRANGE))
    return len(found)


def _policy_of(step: Step, document: Doc) -> Policy:
    said, limit = read_queue(step.dialect, document)
    return said_policy(said)._replace(max_active=limit, on_lost=str(OnLost.ORPHAN))
