"""What the store keeps of a task, an edge, a queue and a node."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ganger.core.clock import Wall
from ganger.core.graph import Join
from ganger.core.ids import BatchId, Fence, QueueId, TaskId
from ganger.core.lane import Lane
from ganger.core.node import Node
from ganger.core.queue import Queue, Sort
from ganger.core.task import Kind, Task
from ganger.databases.mongo import ObjectId
from ganger.engine.store import Chunk, Datum
from ganger.engine.stores.mongo.spec import Spec

UNCLAIMED: Final = -1
"""What a document says instead of a node while nobody has the task."""
ODD: Final = "(none: the queue's document makes no sense)"
"""The plugin of a queue whose document makes no sense: no node has it."""
OWN: Final = "Ganger"
"""The constructor of queues whose tasks only Ganger can run."""
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Row(NamedTuple):
    """A task and what nobody but the store needs to know of it.

    `edges` are those not decided yet, `held` those that held; `members` of a group are those not final, `failures` the
    ones that did not succeed, `open` keeps it waiting for more. `claimed` is when its lease began, `term` the length
    that it was last given, `output` how many bytes of its output are here, `known` the status that the store last
    wrote, `foreign` whether a stranger made it. `id`, `queue`, `node`, `stdout` and `stderr` are as strangers know
    them; so is `exit`, what its process exited with, if the dialect has a word for it. `theirs` are the attributes that
    nobody but they know.
    """

    task: Task
    spec: Spec
    lane: Lane
    rank: int
    id: ObjectId
    queue: ObjectId
    node: str | int = UNCLAIMED
    edges: int = 0
    held: int = 0
    members: int = 0
    failures: int = 0
    open: bool = False
    claimed: Wall | None = None
    term: int = 0
    output: int = 0
    known: int | None = None
    foreign: bool = False
    stdout: Any = None
    stderr: Any = None
    exit: int | None = None
    theirs: Mapping[str, Any] = NOTHING

    def having(self, **fields: Any) -> "Row":
        """The row with other fields of its task."""
        return self._replace(task=self.task._replace(**fields))

    def waiting(self, *, edges: int = 0, held: int = 0, members: int = 0, failures: int = 0) -> "Row":
        """The row with so many more of each (or fewer)."""
        row = self._replace(
            edges=self.edges + edges,
            held=self.held + held,
            members=self.members + members,
            failures=self.failures + failures,
        )
        return row.counting()

    def counting(self) -> "Row":
        """The row with what its task waits for. A join of `any` is free of its other edges when one has held."""
        edges = 0 if self.task.join == Join.ANY and self.held else self.edges
        return self.having(waits=edges + self.members + self.open)

    @property
    def limit(self) -> "tuple[QueueId, str] | None":
        return None if self.task.limit_key is None else (self.task.queue, self.task.limit_key)


class Decided(StrEnum):
    OPEN = "open"
    HELD = "held"
    NEVER = "never"


class Link(NamedTuple):
    """An edge, and what has become of it."""

    child: TaskId
    parent: TaskId
    on: str
    decided: str = Decided.OPEN

    @property
    def key(self) -> str:
        return link_key(self.child, self.parent)


def link_key(child: TaskId, parent: TaskId) -> str:
    return f"{child}:{parent}"


class QueueRow(NamedTuple):
    """A queue, its document, the batch that it fills, and the counts that strangers read."""

    queue: Queue
    id: ObjectId
    batch: BatchId | None = None
    filled: int = 0
    todo: int | None = 0
    total: int | None = 0

    @property
    def shared(self) -> bool:
        """May strangers take its tasks?"""
        return self.queue.policy.plugin is not None

    @property
    def odd(self) -> bool:
        """Does its document make no sense? Nobody takes its tasks then."""
        return self.queue.policy.plugin == ODD


class Seen(NamedTuple):
    """A stranger's task in which nothing of ours is written: its id here, its queue, the status that was told last."""

    id: ObjectId
    task: TaskId
    queue: QueueId
    known: int


class Met(NamedTuple):
    """A stranger's queue in which nothing of ours is written, and its id here."""

    id: ObjectId
    queue: QueueId


class NodeRow(NamedTuple):
    """A registration, the token that proves it, the boot in which its moments mean something, its lease's length.

    `said` are the slots that it says it has.
    """

    node: Node
    token: str
    boot: str
    term: int
    said: int | None


class Shown(NamedTuple):
    """A node as strangers know it: one document for each name.

    `slots` is what it shows as its limit; anybody may change that, so `said` keeps what the node says of itself. Where
    the document was not `made` here its limit is never written, but by an operator.
    """

    id: ObjectId
    name: str
    seen: Wall
    slots: int | None
    queues: tuple[dict[str, Any], ...] = ()
    ours: bool = True
    said: int | None = None
    made: bool = True

    @property
    def limit(self) -> int | None:
        """What somebody else has set."""
        return None if self.made and self.slots == self.said else self.slots

    @property
    def effective(self) -> int | None:
        """How many tasks the node may have at once: what somebody has set, or what it says itself."""
        return self.said if self.limit is None else self.limit


class DatumRow(NamedTuple):
    task: TaskId
    datum: Datum


class ChunkRow(NamedTuple):
    """A chunk of a stream of an attempt."""

    task: TaskId
    fence: Fence
    chunk: Chunk

    @property
    def key(self) -> str:
        return f"{self.task}:{self.fence}:{self.chunk.start}:{self.chunk.stream}"


class Tally(NamedTuple):
    """How often a fact of a queue was told."""

    queue: QueueId
    fact: str
    n: int


def rank_of(task: TaskId, sort: str) -> int:
    return -task if sort == Sort.LIFO else task


def is_group(task: Task) -> bool:
    return task.kind == Kind.GROUP
