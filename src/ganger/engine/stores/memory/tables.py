"""All that the memory store keeps: its tables and the indexes over them."""

from typing import NamedTuple

from ganger.core.audit import AuditLine
from ganger.core.clock import Moment
from ganger.core.event import Event
from ganger.core.ids import Fence, NodeId, Position, QueueId, TaskId
from ganger.core.task import Attempt
from ganger.engine.store import Chunk, Datum
from ganger.engine.stores.memory import row as rows
from ganger.engine.stores.memory.row import Link, NodeRow, QueueRow, Row
from ganger.engine.stores.memory.table import Index, Journal, Place, Table


class StreamKey(NamedTuple):
    """The chunk of a stream of an attempt that begins at `start`."""

    task: TaskId
    fence: Fence
    stream: str
    start: int


class Tables:
    def __init__(self) -> None:
        self.journal = Journal()
        self._make_task_indexes()
        self.rows: Table[TaskId, Row] = Table(self.journal, self._task_indexes)
        self.parents = Index(rows.place_child)
        self.children = Index(rows.place_parent)
        self.links: Table[tuple[TaskId, TaskId], Link] = Table(self.journal, (self.parents, self.children))
        self.data_keys = Index(_place_datum)
        self.data: Table[tuple[TaskId, str], tuple[TaskId, Datum]] = Table(self.journal, (self.data_keys,))
        self.chunk_keys = Index(_place_chunk)
        self.chunks: Table[StreamKey, tuple[StreamKey, Chunk]] = Table(self.journal, (self.chunk_keys,))
        self.attempts_of = Index(_place_attempt)
        self.attempts: Table[tuple[TaskId, Fence], Attempt] = Table(self.journal, (self.attempts_of,))
        self.queues: Table[QueueId, QueueRow] = Table(self.journal)
        self.nodes: Table[NodeId, NodeRow] = Table(self.journal)
        self.identities: Table[str, int] = Table(self.journal)
        self.limits: Table[str, int] = Table(self.journal)
        """How many tasks the nodes of these names hold at once, whatever they say of themselves."""
        self.followed: Table[TaskId, Moment] = Table(self.journal)
        self.events: Table[Position, Event] = Table(self.journal)
        self.audit: Table[Position, AuditLine] = Table(self.journal)
        self.tallies: Table[tuple[QueueId, str], int] = Table(self.journal)
        self._sequences: Table[str, int] = Table(self.journal)

    def _make_task_indexes(self) -> None:
        self.ready = Index(rows.place_ready)
        self.delayed = Index(rows.place_delayed)
        self.limited = Index(rows.place_limited)
        self.unparked = Index(rows.place_unparked)
        self.active_of_key = Index(rows.place_active_of_key)
        self.active_of_queue = Index(rows.place_active_of_queue)
        self.active_of_node = Index(rows.place_active_of_node)
        self.active_of_both = Index(rows.place_active_of_both)
        self.touched = Index(rows.place_touched)
        self.statuses = Index(rows.place_status)
        self.keys = Index(rows.place_key)
        self.members = Index(rows.place_member)
        self.ended = Index(rows.place_ended)
        self._task_indexes = (
            *(self.ready, self.delayed, self.limited, self.unparked, self.active_of_key, self.active_of_queue),
            *(self.active_of_node, self.active_of_both, self.touched, self.statuses, self.keys, self.members),
            self.ended,
        )

    def draw(self, sequence: str) -> int:
        """The next number of a sequence, from 1 on."""
        number = self.last(sequence) + 1
        self._sequences.put(sequence, number)
        return number

    def last(self, sequence: str) -> int:
        return self._sequences.get(sequence) or 0

    def datum(self, task: TaskId, key: str) -> Datum | None:
        found = self.data.get((task, key))
        return None if found is None else found[1]

    def put_datum(self, task: TaskId, datum: Datum) -> None:
        self.data.put((task, datum.key), (task, datum))


def _place_datum(row: tuple[TaskId, Datum]) -> Place:
    return row[0], row[1].key


def _place_chunk(row: tuple[StreamKey, Chunk]) -> Place:
    return row[0].task, row[0]


def _place_attempt(attempt: Attempt) -> Place:
    return attempt.task, attempt.fence
