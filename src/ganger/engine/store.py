"""THE CONTRACT between the engine and whatever keeps the tasks.

The engine decides, the store applies. A decision travels as a value (a `Move`, a `Note`, an `Edit`) that names the rule and
the lease under which it was made, and the store applies a batch of them in one atomic, durable step, each only if
`core.state.judge` still says so. What two writers could decide differently at the same instant is not decided above but
carried as an *effect* that the store computes inside the step, with the functions of `core`:

- a key that must be absent;
- the release of children: exactly once per edge, whoever settles the parents and however many at once;
- the end of a group when its last member ends;
- the counts under a limit, and the lane in which a task waits;
- whether a kicked task still waits for its parents;
- the batch that a task falls into;
- the result that becomes a task of another queue;
- the tallies, the events, the attempt's row and the audit line of everything above.

Terms that hold for every operation:

- *Atomic*: all of a request or nothing of it is stored, except where it says "each by itself".
- *Durable*: when a writing operation returns, its effect survives any crash of any process and a loss of power. When it
  raises `StoreUnavailable` the outcome is unknown and the same request may be sent again; with any other error
  nothing of it was stored.
- *Time* is the store's, read once per step inside it. No time of a caller is compared with a lease.
- *Order*: steps are linearizable. Positions are handed out in the order of commits.
- *Fence*: whatever a holder writes names its fence and is refused as stale if that is not the task's newest, if the lease
  has ended, or if its node is not there.
- *Errors* are those of `core.errors`; a foreign exception never passes.
- *Bounds*: a store does bounded work per step. What is larger (a parent of a million children) is stored as work left over and
  done in further steps by `tend`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from ganger.core.audit import Act, AuditLine
from ganger.core.clock import Wall
from ganger.core.event import Event
from ganger.core.ids import Fence, NodeId, Position, QueueId, TaskId
from ganger.core.node import Node, Registration
from ganger.core.queue import Counts, Policy, Queue
from ganger.core.state import Move
from ganger.core.task import Attempt, Claimed, Family, NewTask, Task

INLINE_SPEC = 1024
"""A spec up to this size lies in the task itself; a larger one is its data `spec`."""

CLAIMED_SPEC = 64 * 1024
"""A spec up to this size travels with a claim."""

STEP_EDGES = 1_000
"""How many edges one step follows; the rest is left to `tend`."""


class Capabilities(NamedTuple):
    """What a store can do beyond the least that the contract asks; the conformance suite asks before it expects."""

    durable: bool
    shared: bool
    """Several processes may open it at once."""
    foreign_writers: bool = False
    """Strangers write to it too, so leases that they hold cannot be fenced."""


class Submission(NamedTuple):
    """Tasks to be stored together. `under` guards it: the submitter holds this lease (task, fence) now."""

    tasks: tuple[NewTask, ...]
    under: tuple[TaskId, Fence] | None = None
    act: Act | None = None


class Submitted(NamedTuple):
    """The ids in the order of the tasks; `existing` are the indexes whose key was taken and given back."""

    ids: list[TaskId]
    existing: list[int]


class Claim(NamedTuple):
    """A holder asks for at most `most` tasks of these queues, or for the named `ids` if they are ready.

    `start`: they go straight to running. `length` is the lease of a touched task that has no ttr of its own.
    """

    holder: NodeId
    queues: tuple[QueueId, ...] = ()
    most: int = 1
    ids: tuple[TaskId, ...] = ()
    start: bool = False
    length: int = 60_000


class Exchange(NamedTuple):
    """Moves, and then a claim, in one step."""

    moves: tuple[Move, ...] = ()
    claim: Claim | None = None
    all_or_nothing: bool = False
    act: Act | None = None


class Exchanged(NamedTuple):
    """`refused` pairs the index of a move with its verdict; every other move was applied.

    `next_due`: when nothing more was ready, the wall time at which the first delayed task of the queues is due, or at
    which a pause of one of them ends. `waiting` says that a limit, and not a lack of tasks, ended the claim.
    """

    refused: list[tuple[int, str]]
    claimed: list[Claimed]
    next_due: Wall | None = None
    waiting: bool = False


class Touch(NamedTuple):
    """More time for a touched lease: `length` from now, None for the task's ttr."""

    length: int | None = None


class Progress(NamedTuple):
    percent: float | None
    info: str | None


class Datum(NamedTuple):
    """A named value of a task: bytes here, or the hash of a blob that is already safe. `only_if_unset` never replaces."""

    key: str
    value: bytes | None = None
    blob: str | None = None
    size: int = 0
    only_if_unset: bool = False


class Chunk(NamedTuple):
    """Output of the attempt, from `start` on. A chunk that is already there is not stored twice."""

    stream: str
    start: int
    body: bytes = b""
    blob: str | None = None
    size: int = 0


class Note(NamedTuple):
    """What a holder writes without moving its task: exactly one of the four. `fence` 0 is the operator's (data only)."""

    task: TaskId
    fence: Fence
    touch: Touch | None = None
    progress: Progress | None = None
    datum: Datum | None = None
    chunk: Chunk | None = None


class Change(NamedTuple):
    """New values for a task that has not started; None leaves a field as it is."""

    spec: bytes | None = None
    priority: int | None = None
    due: Wall | None = None
    description: str | None = None
    retry: str | None = None
    timeout: int | None = None


class Edit(NamedTuple):
    """One edit of a graph; exactly one of its parts is given.

    `change` needs a waiting task. `kill` marks a leased one, whose holder is told at its next beat; a waiting one is
    cancelled instead. `remove` takes a task that is not leased out of the graph: with `descendants` all below it that
    are waiting go too, else its children get its parents. `link` adds an edge from (parent, on) to a waiting task
    and is refused if that would close a cycle; `unlink` takes one away. `close_group` says that no more members come.
    """

    task: TaskId
    change: Change | None = None
    kill: bool = False
    remove: bool = False
    descendants: bool = False
    link: tuple[TaskId, str] | None = None
    unlink: TaskId | None = None
    close_group: bool = False


class Edits(NamedTuple):
    """Edits that are stored together or not at all. `under`: see Submission; each task must be in that one's family."""

    edits: tuple[Edit, ...]
    under: tuple[TaskId, Fence] | None = None
    act: Act | None = None


class QueueChange(NamedTuple):
    """Make a queue (id 0), change its policy, pause it until then (0 resumes), rename it, or delete it.

    A queue is deleted only when it has no task that is not final, or with `drop`: its waiting tasks are cancelled first,
    and leased ones still refuse.
    """

    id: QueueId = QueueId(0)
    name: str | None = None
    policy: Policy | None = None
    paused_until: Wall | None = None
    delete: bool = False
    drop: bool = False


class NodeChange(NamedTuple):
    """Register a node, beat for it, drain it, or let it leave. All but the first name its id and token."""

    id: NodeId = NodeId(0)
    token: str = ""
    register: Registration | None = None
    beat: bool = False
    lease: int | None = None
    drain: bool = False
    leave: bool = False


class Configure(NamedTuple):
    """One change of one queue or one node."""

    queue: QueueChange | None = None
    node: NodeChange | None = None
    act: Act | None = None


class Configured(NamedTuple):
    """What it is now. `kills`: leased tasks of a beating node that somebody asked to kill."""

    queue: Queue | None = None
    node: Node | None = None
    kills: tuple[TaskId, ...] = ()


class Lapsed(NamedTuple):
    """A task whose lease has ended, with what the engine needs to decide what follows.

    `started`: its holder had told that it runs. `left`: the holder left in order; nothing is to be blamed.
    """

    task: TaskId
    fence: Fence
    status: int
    started: bool
    left: bool
    crashes: int
    retry: str
    on_lost: str
    kill: bool
    holder: str


class Tend(NamedTuple):
    """One bounded step of upkeep: exactly one of its parts is true or given.

    `promote` moves due tasks to queued. `release` follows edges and groups that were left over, and repairs those that a
    crash of a weaker store left. `lapse` marks nodes whose lease has ended as lost and returns tasks whose lease has ended
    (changing nothing else). `prune_before` removes final tasks that ended before then, and events and nodes as old.
    `trim_output` removes the oldest output of final tasks until at most that many bytes are stored. `blobs` asks which of
    these hashes no row names.
    """

    most: int = 1_000
    promote: bool = False
    release: bool = False
    lapse: bool = False
    prune_before: Wall | None = None
    trim_output: int | None = None
    blobs: tuple[str, ...] = ()


class Tended(NamedTuple):
    """`done` things were done, `more` wait; `next_at` is the moment (lapse) or wall time (promote) of the next one."""

    done: int
    more: bool
    lapsed: list[Lapsed]
    next_at: int | None = None
    blobs: tuple[str, ...] = ()


class Query(NamedTuple):
    """Which tasks: every given field must match. `after` is a cursor; `newest_first` walks down from it."""

    queue: QueueId | None = None
    statuses: tuple[int, ...] | None = None
    kind: str | None = None
    group: TaskId | None = None
    batch: int | None = None
    key: str | None = None
    holder: NodeId | None = None
    parent: TaskId | None = None
    after: Position | None = None
    newest_first: bool = False
    most: int = 100


class Page(NamedTuple):
    """A page may be short, even empty, and still have a `next`: only None means the end."""

    tasks: list[Task]
    next: Position | None


class Look(NamedTuple):
    """All about one task: itself, its family and its attempts (each at most `most`, the newest), the keys of its data."""

    task: Task
    family: Family
    attempts: list[Attempt]
    keys: list[str]
    streams: list[str]


class Value(NamedTuple):
    """A part of a value or stream. `blob` names where the bytes lie if they are not here; `size` is the whole's.

    `start` is where the part begins inside the blob or the value; `ended`: nothing will be added any more.
    """

    body: bytes | None
    blob: str | None
    start: int
    size: int
    ended: bool


class Directory(NamedTuple):
    queues: list[Queue]
    nodes: list[Node]
    tag: int
    """The store's own 63-bit number, drawn when it was made."""


class Store(Protocol):
    """What the engine needs of whatever keeps the tasks: fifteen operations."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def submit(self, request: Submission) -> Submitted:
        """Store new tasks with their edges, groups, batches and the event of each queue. Atomic.

        A task is born blocked if an edge is undecided (or if its kind takes no slot), delayed if it is due later, else
        queued; if an edge can never hold it is cancelled at once. Ids grow in the order of the tasks, positions likewise.

        Raises DuplicateKey (field `task`: who has it), UnknownParent, UnknownGroup, QueueNotFound, StaleLease, StoreFull.
        A cycle was refused above. Not idempotent by itself: give keys with `return` to send it again safely.
        """
        ...

    async def exchange(self, request: Exchange) -> Exchanged:
        """Apply moves, each by itself (or all or nothing), and then claim. One step.

        A move is applied if `judge` says so; else it is in `refused` and changes nothing. With `all_or_nothing` the first
        refusal raises StaleLease, WrongStatus or TaskNotFound. A repeated move is refused the second time.
        Several moves of one task in a step are applied in their order.

        The claim first promotes due tasks of its queues. It gives the tasks of the best priority over all queues, then by
        each queue's sort, from the lanes that are open to the holder, as far as every limit allows; a paused queue gives
        none. Each has a new fence and a lease. Named `ids` are given if queued and allowed, and left out otherwise.
        Raises NodeGone if the claim's holder is not live, or drains.
        """
        ...

    async def write(self, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
        """Store what holders say without moving their tasks, each by itself; returns the refused (index, verdict).

        Touch, progress and chunks need a valid lease. A datum needs one, or fence 0 and a task that is not final (keys
        other than `spec`, which Edit changes). Idempotent: the same note twice leaves the same state.
        """
        ...

    async def edit(self, request: Edits) -> None:
        """Change graphs. Atomic, all or nothing.

        Raises TaskNotFound, WrongStatus, CycleFound, UnknownParent, StaleLease.
        """
        ...

    async def configure(self, request: Configure) -> Configured:
        """Change a queue or a node. Atomic.

        Registering a name that another live registration has under another token raises NodeTaken; under the same
        token it returns that one, renewed. A beat renews every lease that lives by the node's liveness; NodeGone tells a
        node that its registration has ended and that all its leases are lost: it must register anew.
        Also raises QueueNotFound, QueueInUse.
        """
        ...

    async def tend(self, step: Tend) -> Tended:
        """Do one bounded step of upkeep. Idempotent: any number of parties may call it at any time."""
        ...

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        """The tasks with these ids, in this order; None where there is none."""
        ...

    async def find(self, query: Query) -> Page:
        """Tasks in the order of their positions. A walk by cursor sees each task that matches throughout exactly once."""
        ...

    async def look(self, task: TaskId, most: int = 100) -> Look:
        """Everything about one task. Raises TaskNotFound."""
        ...

    async def value(
        self, task: TaskId, key: str, start: int = 0, most: int = 65_536, fence: Fence | None = None
    ) -> Value:
        """A part of a datum, or of an output stream (key `out:<stream>`, of that attempt or else the newest that has some).

        `spec` and `result` are data like others. Raises TaskNotFound; a key that is not there has size 0 and no body.
        """
        ...

    async def events(self, after: Position, most: int = 1_000) -> list[Event]:
        """The events behind a position, in order. After -1 there is nothing: position 0 is before the first."""
        ...

    async def counts(self) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
        """For each queue: how many tasks have each status, and how often each fact has been told, since it was made."""
        ...

    async def directory(self) -> Directory:
        """All queues, and all nodes that are here or were lost or left a while ago."""
        ...

    async def audit(self, after: Position, most: int = 1_000) -> list[AuditLine]:
        """Lines of the operator's log, in order."""
        ...

    def listen(self, topics: Iterable[str], told: Callable[[str], None]) -> Callable[[], None]:
        """Be told, soon after it was committed anywhere, of what happened under a topic; returns the way to stop it.

        Topics: `queue:<id>` (a task of it became ready, or is due earlier than any before), `events` (there are new ones),
        `nodes`, `queues`. A wake-up may be spurious and may be lost with a connection: after `reset` look for yourself.
        Nothing is right only because of it.
        """
        ...


QUEUE_TOPIC = "queue:{}"
EVENTS_TOPIC = "events"
NODES_TOPIC = "nodes"
QUEUES_TOPIC = "queues"
RESET_TOPIC = "reset"
