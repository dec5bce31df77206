"""The collections: the protocol's three, and those that are the store's alone."""

from typing import Final

from ganger.core.audit import AuditLine
from ganger.core.clock import Moment, Wall
from ganger.core.event import Entry, Event, Fact
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.task import Attempt
from ganger.databases.mongo import Doc, Index, Table
from ganger.engine.store import Chunk, Datum
from ganger.engine.stores.mongo import codec
from ganger.engine.stores.mongo.row import ChunkRow, DatumRow, Link, Met, NodeRow, QueueRow, Row, Seen, Shown, Tally

TASKS: Final[Table[Row]] = Table(
    "tasks", codec.task_from, codec.task_to, codec.task_key, "ganger.id", "ganger.v", watched=("status", "node"),
    blank=codec.BLANK,
)  # fmt: skip
QUEUES: Final[Table[QueueRow]] = Table(
    "queues", codec.queue_from, codec.queue_to, lambda row: row.queue.id, "ganger.id", "ganger.v"
)
SHOWN: Final[Table[Shown]] = Table(
    "nodes", codec.shown_from, codec.shown_to, lambda shown: shown.name, "node", "ganger.v"
)
NODES: Final[Table[NodeRow]] = Table("ganger_nodes", codec.node_from, codec.node_to, lambda row: row.node.id)


SEEN: Final[Table[Seen]] = Table(
    "ganger_seen",
    lambda document: Seen(document["_id"], TaskId(document["n"]), QueueId(document["queue"]), document["known"]),
    lambda seen: {"_id": seen.id, "n": seen.task, "queue": seen.queue, "known": seen.known},
    lambda seen: seen.id,
)
MET: Final[Table[Met]] = Table(
    "ganger_met",
    lambda document: Met(document["_id"], QueueId(document["n"])),
    lambda met: {"_id": met.id, "n": met.queue},
    lambda met: met.id,
)


def _link_to(link: Link) -> Doc:
    return {"_id": link.key, **link._asdict()}


def _link_from(document: Doc) -> Link:
    return Link(*(document[name] for name in Link._fields))


LINKS: Final[Table[Link]] = Table("ganger_edges", _link_from, _link_to, lambda link: link.key)


def datum_key(task: TaskId, key: str) -> str:
    return f"{task}:{key}"


def _datum_to(row: DatumRow) -> Doc:
    task, datum = row
    inside = {"key": datum.key, "value": datum.value, "blob": datum.blob, "size": datum.size}
    return {"_id": datum_key(task, datum.key), "task": task, **inside}


def datum_from(document: Doc) -> DatumRow:
    datum = Datum(document["key"], document["value"], document["blob"], document["size"])
    return DatumRow(TaskId(document["task"]), datum)


DATA: Final[Table[DatumRow]] = Table(
    "ganger_data", datum_from, _datum_to, lambda row: datum_key(row.task, row.datum.key)
)


def _chunk_to(row: ChunkRow) -> Doc:
    return {"_id": row.key, "task": row.task, "fence": row.fence, **row.chunk._asdict()}


def chunk_from(document: Doc) -> ChunkRow:
    chunk = Chunk(*(document[name] for name in Chunk._fields))
    return ChunkRow(TaskId(document["task"]), Fence(document["fence"]), chunk)


CHUNKS: Final[Table[ChunkRow]] = Table("ganger_output", chunk_from, _chunk_to, lambda row: row.key)


def _attempt_to(attempt: Attempt) -> Doc:
    return {"_id": f"{attempt.task}:{attempt.fence}", **attempt._asdict()}


def attempt_from(document: Doc) -> Attempt:
    return Attempt(*(document[name] for name in Attempt._fields))


ATTEMPTS: Final[Table[Attempt]] = Table(
    "ganger_attempts", attempt_from, _attempt_to, lambda attempt: f"{attempt.task}:{attempt.fence}"
)


def _event_to(event: Event) -> Doc:
    entries = [list(entry) for entry in event.entries]
    named = {"at": event.at, "fact": str(event.fact), "queue": event.queue, "holder": event.holder}
    return {"_id": event.position, **named, "entries": entries, "subject": event.subject}


def event_from(document: Doc) -> Event:
    return Event(
        Position(document["_id"]),
        Wall(document["at"]),
        Fact(document["fact"]),
        QueueId(document["queue"]),
        document["holder"],
        tuple(Entry(*entry) for entry in document["entries"]),
        document["subject"],
    )


EVENTS: Final[Table[Event]] = Table("ganger_events", event_from, _event_to, lambda event: event.position, last=True)


def _line_to(line: AuditLine) -> Doc:
    return {"_id": line.position, **line._asdict()}


def line_from(document: Doc) -> AuditLine:
    return AuditLine(*(document[name] for name in AuditLine._fields))


AUDIT: Final[Table[AuditLine]] = Table("ganger_audit", line_from, _line_to, lambda line: line.position)


def tally_key(queue: QueueId, fact: str) -> str:
    return f"{queue}:{fact}"


def tally_from(document: Doc) -> Tally:
    return Tally(QueueId(document["queue"]), document["fact"], document["n"])


def _tally_to(tally: Tally) -> Doc:
    return {"_id": tally_key(tally.queue, tally.fact), **tally._asdict()}


TALLIES: Final[Table[Tally]] = Table(
    "ganger_tallies", tally_from, _tally_to, lambda tally: tally_key(tally.queue, tally.fact)
)

IDENTITIES: Final[Table[tuple[str, int]]] = Table(
    "ganger_identities",
    lambda document: (document["_id"], document["n"]),
    lambda row: {"_id": row[0], "n": row[1]},
    lambda row: row[0],
)

FOLLOWS: Final[Table[tuple[TaskId, Moment]]] = Table(
    "ganger_follows",
    lambda document: (TaskId(document["_id"]), Moment(document["until"])),
    lambda row: {"_id": row[0], "until": row[1]},
    lambda row: row[0],
)

MARKS: Final[Table[tuple[str, int]]] = Table(
    "ganger_marks",
    lambda document: (document["_id"], document["at"]),
    lambda row: {"_id": row[0], "at": row[1]},
    lambda row: row[0],
)

_OURS: Final = {"ganger.id": {"$exists": True}}
_TEXT: Final = {"$gt": ""}
_NUMBER: Final = {"$gt": 0}
"""What an index leaves out must follow from the question, or the server does not use it: so these are comparisons."""

INDEXES: Final = (
    Index("tasks", ("ganger.id",), unique=True, where=_OURS),
    Index("tasks", ("ganger.id", "queue", "_id")),
    Index("tasks", ("queue", "ganger.known", "status"), where={"ganger.known": {"$lte": 0}}),
    Index("tasks", ("node", "status", "queue", "_id"), urgent=True),
    Index("tasks", ("queue", "status", "_id")),
    Index("tasks", ("ganger.position",)),
    Index("tasks", ("ganger.queue", "ganger.position")),
    Index(
        "tasks",
        ("ganger.queue", "status", "ganger.parked", "ganger.lane", "ganger.priority", "ganger.rank", "ganger.id"),
    ),
    Index("tasks", ("status", "ganger.due", "ganger.id"), where={"status": -8}),
    Index("tasks", ("ganger.queue", "ganger.limit_key", "status"), where={"ganger.limit_key": _TEXT}),
    Index("tasks", ("ganger.holder", "ganger.queue"), where={"ganger.holder": _NUMBER}),
    Index("tasks", ("ganger.until", "ganger.id"), where={"ganger.until": _NUMBER}),
    Index("tasks", ("ganger.key",), where={"ganger.key": _TEXT}),
    Index("tasks", ("ganger.group", "ganger.id"), where={"ganger.group": _NUMBER}),
    Index("tasks", ("ganger.batch", "ganger.id"), where={"ganger.batch": _NUMBER}),
    Index("tasks", ("ganger.ended", "ganger.id"), where={"ganger.ended": {"$gte": 0}}),
    Index("tasks", ("ganger.ended", "ganger.output"), where={"ganger.output": _NUMBER}),
    Index("tasks", ("ganger.kind", "status"), where={"ganger.kind": "group"}),
    Index("tasks", ("ganger.pending",), where={"ganger.pending": _TEXT}),
    Index("queues", ("ganger.id",), unique=True, where=_OURS),
    Index("nodes", ("node",), unique=True),
    Index("ganger_seen", ("n",), unique=True),
    Index("ganger_seen", ("known", "n")),
    Index("ganger_seen", ("queue", "known", "n")),
    Index("ganger_met", ("n",), unique=True),
    Index("ganger_nodes", ("name", "state")),
    Index("ganger_edges", ("child",)),
    Index("ganger_edges", ("parent", "child")),
    Index("ganger_data", ("task",)),
    Index("ganger_data", ("blob",), where={"blob": _TEXT}),
    Index("ganger_output", ("task", "stream", "fence", "start")),
    Index("ganger_output", ("blob",), where={"blob": _TEXT}),
    Index("ganger_attempts", ("task", "fence")),
    Index("ganger_events", ("at",)),
    Index("ganger_follows", ("until",)),
    Index("tasks.chunks", ("files_id", "n"), unique=True),
)
