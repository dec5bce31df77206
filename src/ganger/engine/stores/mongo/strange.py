"""What strangers made, as rows: their documents as they lie there, and a number for each that is kept beside them.

Nothing is written into a document only because it was seen. What a stranger makes gets its id in a collection of the
store's own: `ganger_seen` for tasks, with the queue and the status that was last told, and `ganger_met` for queues. The
row of such a document has what it says, and what any plain task has for the rest. Only when the store writes the row,
because it runs the task or somebody changed it here, does the document get the attribute that is ours; from then on the
id is there, and the note beside is dropped.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ganger.core.ids import QueueId, TaskId
from ganger.core.queue import OnLost
from ganger.core.state import is_final
from ganger.core.task import PLUGIN
from ganger.databases.mongo import Choice, Doc, Session, date, wall_of
from ganger.engine.stores.mongo.dialect import Dialect, read_queue, read_task
from ganger.engine.stores.mongo.odd import judge_strange_queue, judge_task
from ganger.engine.stores.mongo.row import Met, QueueRow, Row, Seen, rank_of
from ganger.engine.stores.mongo.spec import Spec
from ganger.engine.stores.mongo.tables import MET, QUEUES, SEEN, TASKS
from ganger.engine.stores.mongo.wording import decode_queue, decode_task

STRANGE: Final[Doc] = {"ganger.id": {"$exists": False}}


def read_strange_task(dialect: Dialect, document: Doc, task: TaskId, queue: QueueRow) -> Row:
    """The row of a stranger's task; it must make sense."""
    said, status = read_task(dialect, document), document["status"]
    kind = f"{PLUGIN}{queue.queue.policy.plugin}"
    inside: Doc = {
        "id": task,
        "position": task,
        "queue": queue.queue.id,
        "kind": kind,
        "rank": rank_of(task, queue.queue.policy.sort),
        "known": status,
        "foreign": True,
        "spec_size": len(Spec(said.get("parameters") or {}).to_bytes(kind)),
        "ended": wall_of(document.get("mtime"), wall_of(document.get("ctime"), 0)) if is_final(status) else None,
    }
    return decode_task(dialect, {**document, "ganger": inside})


def read_strange_queue(dialect: Dialect, document: Doc, queue: QueueId) -> QueueRow:
    inside = {"id": queue, "policy": {"on_lost": str(OnLost.ORPHAN)}}
    return decode_queue(dialect, {**document, "ganger": inside})


def judge(dialect: Dialect, document: Doc) -> str | None:
    """Why the document of a stranger's queue makes no sense."""
    told, limit = read_queue(dialect, document)
    return judge_strange_queue({**told, "threads": limit})


async def load_queues(session: Session, dialect: Dialect, queues: Iterable[QueueId]) -> None:
    """Know those of these queues that are strangers' and were met: two questions for all."""
    met = {one.id: one for one in await session.draft.select(_met(queues))}
    if not met:
        return
    for document in await session.find(QUEUES.name, {"_id": {"$in": list(met)}, **STRANGE}):
        recognise_queue(session, dialect, document, met[document["_id"]])


def recognise_queue(session: Session, dialect: Dialect, document: Doc, met: Met) -> QueueRow | None:
    if judge(dialect, document) is not None:
        return None
    row = read_strange_queue(dialect, document, met.queue)
    return session.draft.recognise(QUEUES, document["_id"], row, dict(STRANGE))


def _met(queues: Iterable[QueueId]) -> Choice[Met]:
    wanted = set(queues)
    return Choice(MET, {"n": {"$in": sorted(wanted)}}, lambda met: met.queue in wanted)


def seen_of(tasks: Iterable[TaskId]) -> Choice[Seen]:
    wanted = set(tasks)
    return Choice(SEEN, {"n": {"$in": sorted(wanted)}}, lambda seen: seen.task in wanted)


async def load_tasks(session: Session, dialect: Dialect, tasks: Iterable[TaskId]) -> None:
    """Know those of these tasks that are strangers' and were seen."""
    seen = {one.id: one for one in await session.draft.select(seen_of(tasks))}
    if not seen:
        return
    queues = {one.queue for one in seen.values()}
    await session.draft.load(QUEUES, queues)
    await load_queues(session, dialect, [queue for queue in queues if session.draft.at_hand(QUEUES, queue) is None])
    for document in await session.find(TASKS.name, {"_id": {"$in": list(seen)}, **STRANGE}):
        one = seen[document["_id"]]
        queue = session.draft.at_hand(QUEUES, one.queue)
        if queue is not None and judge_task(document) is None:
            recognise_task(session, dialect, document, one.task, queue)


def recognise_task(session: Session, dialect: Dialect, document: Doc, task: TaskId, queue: QueueRow) -> Row:
    row = read_strange_task(dialect, document, task, queue)
    guard = {**STRANGE, "status": document["status"], "node": document.get("node")}
    return session.draft.recognise(TASKS, document["_id"], row, guard)


def old_of_strangers(before: int, queues: Mapping[Any, QueueRow]) -> Doc:
    """Final tasks of strangers that were last changed before then."""
    final: Doc = {"$or": [{"status": {"$gte": 1}}, {"status": {"$in": [-6, -5, -3]}}]}
    return {**STRANGE, **final, "mtime": {"$lt": date(before)}, "queue": {"$in": list(queues)}}
