"""Tasks and queues that strangers made get an id, beside their documents; and what became of them is told.

A database may have a million old tasks. Those that are open are seen first, the newest of those that have ended after
them, little by little: work is taken meanwhile, and nothing waits for it. How far a process has looked it remembers
only itself. What is odd is passed over; see `odd.py`.
"""

from collections.abc import Sequence
from typing import Any, Final

from ganger.core.event import Entry, Fact
from ganger.core.ids import QueueId, TaskId
from ganger.core.showing import show
from ganger.core.state import LEASED, Status, is_final
from ganger.databases.mongo import Choice, Doc, ObjectId
from ganger.engine.store import QUEUES_TOPIC
from ganger.engine.stores.mongo.odd import is_status, judge_task
from ganger.engine.stores.mongo.row import Met, QueueRow, Seen
from ganger.engine.stores.mongo.step import NO_HOLDER, Step
from ganger.engine.stores.mongo.strange import STRANGE, judge
from ganger.engine.stores.mongo.tables import MET, QUEUES, SEEN, TASKS
from ganger.engine.stores.mongo.watch import LAST

_OPEN: Final = [int(status) for status in (Status.BLOCKED, Status.QUEUED, Status.CLAIMED, Status.RUNNING)]
_ACTIVE: Final = [int(status) for status in sorted(LEASED)]
_ENDED: Final[Doc] = {
    "$or": [
        {"status": {"$gte": int(Status.SUCCEEDED)}},
        {"status": {"$in": [int(status) for status in (Status.ORPHANED, Status.CANCELLED, Status.TERMINATED)]}},
    ]
}
_LOT: Final = 1_000
_LOTS: Final = 20
_COMPARED: Final = 2_000
_NEEDED: Final = ("status", "node", "queue", "ganger")


async def meet_queues(step: Step) -> int:
    """Give an id to the queues of strangers that have none yet."""
    found = await step.session.find(QUEUES.name, STRANGE)
    judged = [(document["_id"], judge(step.dialect, document)) for document in found]
    for id, odd in judged:
        if odd is not None:
            step.watch.odd.name(QUEUES.name, id, odd)
    sound = [id for id, odd in judged if odd is None]
    await step.draft.load(MET, sound)
    new = [id for id in sound if step.draft.at_hand(MET, id) is None]
    for id in new:
        step.draft.put(MET, Met(id, QueueId(step.draw("queue"))))
        step.wake(QUEUES_TOPIC)
    return len(new)


async def see_tasks(step: Step, queues: Sequence[QueueRow], most: int) -> int:
    """Give an id to tasks of strangers that have none yet; not to those with a code by which nobody is to touch them.

    Those of a queue of our own are nobody's to run: Ganger's kinds are made by Ganger.
    """
    shared = {row.id: row for row in queues if row.shared}
    if not shared:
        return 0
    done = await _see_open(step, shared, most)
    if step.watch.history.is_due():
        with step.watch.history:
            done += await _see_ended(step, shared, most)
    return done


async def _see_open(step: Step, queues: dict[Any, QueueRow], most: int) -> int:
    """Upward from where the last look ended. Past a lot only when all of it is known: this step may not come about."""
    for _ in range(_LOTS):
        where = {"status": {"$in": _OPEN}, "_id": {"$gt": step.watch.newest, "$type": "objectId"}}
        lot = await _read_lot(step, queues, where, 1, most)
        if new := await _see_new(step, queues, lot):
            return new
        if len(lot) < min(most, _LOT):
            step.watch.rest(step.wall)
            return 0
        step.watch.newest = lot[-1]["_id"]
    return 0


async def _see_ended(step: Step, queues: dict[Any, QueueRow], most: int) -> int:
    """Downward, the newest first; and then again from the top."""
    where = {**_ENDED, "_id": {"$lt": step.watch.oldest, "$type": "objectId"}}
    lot = await _read_lot(step, queues, where, -1, most)
    if new := await _see_new(step, queues, lot):
        return new
    step.watch.oldest = lot[-1]["_id"] if lot else LAST
    return 0


async def _read_lot(step: Step, queues: dict[Any, QueueRow], where: Doc, order: int, most: int) -> list[Doc]:
    strange: Doc = {"ganger.id": None, "ganger.pending": None, "queue": {"$in": list(queues)}}
    return await step.session.find(
        TASKS.name, {**strange, **where}, min(most, _LOT), fields=_NEEDED, order=(("_id", order),)
    )


async def _see_new(step: Step, queues: dict[Any, QueueRow], lot: list[Doc]) -> int:
    await step.draft.load(SEEN, [document["_id"] for document in lot])
    new = [document for document in lot if step.draft.at_hand(SEEN, document["_id"]) is None]
    done = 0
    for document in sorted(new, key=lambda document: str(document["_id"])):
        odd = judge_task(document)
        if odd is not None or not _is_plain(document["queue"]):
            step.watch.odd.name(TASKS.name, document["_id"], odd or "its queue is a list")
            continue
        seen = Seen(document["_id"], TaskId(step.draw("task")), queues[document["queue"]].queue.id, document["status"])
        step.draft.put(SEEN, seen)
        done += 1
        if not is_final(seen.known):
            step.tell(Fact.SUBMITTED, seen.queue, NO_HOLDER, Entry(seen.task, seen.known))
            step.wake_queue(seen.queue)
    return done


def _is_plain(value: Any) -> bool:
    return not isinstance(value, list)


async def fold_seen(step: Step, queues: Sequence[QueueRow]) -> int:
    """Tell what strangers did with the tasks that they made."""
    compared = [*await step.draft.select(_known_as(_ACTIVE, 0), _COMPARED), *await _walk_waiting(step)]
    busy: Doc = {"queue": {"$in": [row.id for row in queues if row.shared]}, "status": {"$in": _ACTIVE}}
    found = await step.session.find(
        TASKS.name, {**busy, "ganger.id": None, "ganger.pending": None}, _COMPARED, ("_id",)
    )
    await step.draft.load(SEEN, [document["_id"] for document in found])
    compared += [seen for one in found if (seen := step.draft.at_hand(SEEN, one["_id"])) is not None]
    return await _compare(step, {seen.id: seen for seen in compared})


async def _walk_waiting(step: Step) -> list[Seen]:
    """Some of those that waited when they were last looked at, each time the next."""
    waiting = [code for code in _OPEN if code not in _ACTIVE]
    lot = await step.draft.select(_known_as(waiting, step.watch.looked), _COMPARED)
    step.watch.looked = lot[-1].task if len(lot) == _COMPARED else 0
    return lot


def _known_as(codes: list[int], after: int) -> Choice[Seen]:
    where = {"known": {"$in": codes}, "n": {"$gt": after}}
    return Choice(
        SEEN, where, lambda seen: seen.known in codes and seen.task > after, (("n", 1),), lambda seen: seen.task
    )


async def _compare(step: Step, compared: dict[ObjectId, Seen]) -> int:
    if not compared:
        return 0
    found = await step.session.find(TASKS.name, {"_id": {"$in": list(compared)}}, fields=_NEEDED)
    there = {document["_id"]: document for document in found}
    return sum(_fold(step, seen, there.get(id)) for id, seen in compared.items())


def _fold(step: Step, seen: Seen, document: Doc | None) -> bool:
    inside = None if document is None else document.get("ganger")
    if document is None or (isinstance(inside, dict) and "id" in inside):
        # It is gone, or what is ours is in it by now.
        step.draft.drop(SEEN, seen.id)
        return True
    status = document.get("status")
    if not is_status(status):
        step.watch.odd.name(TASKS.name, seen.id, f"its status is {show(status)}")
        return False
    if status == seen.known:
        return False
    step.draft.put(SEEN, seen._replace(known=status))
    by = document.get("node")
    step.tell(fact_of(status), seen.queue, NO_HOLDER, Entry(seen.task, status, 0, f"by {by!s:.200}"))
    if is_final(status):
        step.ended.append(seen.task)
    return True


def fact_of(status: int) -> Fact:
    if is_final(status):
        return Fact.SETTLED
    if status in LEASED:
        return Fact.CLAIMED if status == Status.CLAIMED else Fact.STARTED
    return Fact.EDITED
