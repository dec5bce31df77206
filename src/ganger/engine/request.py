"""What is asked of a store, and what it answers: values that can be encoded, sent to another process and stored."""

from typing import Final, NamedTuple

from ganger.core.audit import Act
from ganger.core.clock import Wall
from ganger.core.graph import Edge
from ganger.core.ids import Fence, NodeId, Position, QueueId, TaskId
from ganger.core.node import Node, Registration, Vitals
from ganger.core.queue import Policy, Queue
from ganger.core.state import Move
from ganger.core.task import Attempt, Claimed, Family, NewTask, Task


class Past(NamedTuple):
    """How a task ended in another store: it is born with that end, and never runs."""

    status: int
    created: Wall
    ended: Wall
    started: Wall | None = None
    reason: str | None = None
    branch: bool = True
    attempts: int = 0
    crashes: int = 0


class Submission(NamedTuple):
    """Tasks to be stored together. `under` guards it: the submitter holds this lease (task, fence) now.

    `data` pairs the index of a task with a value that it is born with; one whose key gave an older task gets none. A
    value `spec` is a blob, and takes the place of the task's own, which is empty. `pasts` pairs the index of a task
    with its end.
    """

    tasks: tuple[NewTask, ...]
    under: tuple[TaskId, Fence] | None = None
    act: Act | None = None
    data: "tuple[tuple[int, Datum], ...]" = ()
    pasts: tuple[tuple[int, Past], ...] = ()


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
    """Notes, then moves, then a claim, in one step: an attempt's last words, its end, and the next task."""

    moves: tuple[Move, ...] = ()
    claim: Claim | None = None
    all_or_nothing: bool = False
    act: Act | None = None
    notes: "tuple[Note, ...]" = ()


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
    """A named value: bytes here, or the hash of a blob that is already safe. `only_if_unset` never replaces."""

    key: str
    value: bytes | None = None
    blob: str | None = None
    size: int = 0
    only_if_unset: bool = False


class Chunk(NamedTuple):
    """Output of the attempt, from `start` on. A chunk that is already there is not stored twice, and a longer one from
    the same `start` on takes the place of all that it covers.
    """

    stream: str
    start: int
    body: bytes = b""
    blob: str | None = None
    size: int = 0


class Note(NamedTuple):
    """What is written without moving a task: one of the five. `fence` 0 is anybody's (follow, an operator's data).

    `follow` says that somebody reads the output of the task as it comes, for so many milliseconds from now.
    """

    task: TaskId
    fence: Fence
    touch: Touch | None = None
    progress: Progress | None = None
    datum: Datum | None = None
    chunk: Chunk | None = None
    follow: int | None = None


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
    cancelled instead. `remove` takes a task that is not leased out of the graph: with `descendants` all below it go
    too, and none of them may be leased; else its children get its parents. `link` adds an edge from (parent, on) to a
    waiting task and is refused if that would close a cycle; `unlink` takes one away. `close_group` says that no more
    members come. `datum` is a value of a task, whatever its status; it is never a spec.
    """

    task: TaskId
    change: Change | None = None
    kill: bool = False
    remove: bool = False
    descendants: bool = False
    link: tuple[TaskId, str] | None = None
    unlink: TaskId | None = None
    close_group: bool = False
    datum: Datum | None = None


class Edits(NamedTuple):
    """Edits that are stored together or not at all. `under`: see Submission; each task must be in that one's family."""

    edits: tuple[Edit, ...]
    under: tuple[TaskId, Fence] | None = None
    act: Act | None = None


class QueueChange(NamedTuple):
    """Make a queue (id 0), change its policy, pause it until then (0 resumes), rename it, or delete it.

    With `if_absent` a queue of that name that is there already is given back as it is, and none is made.

    A queue is deleted only when it has no task that is not final, or with `drop`: its waiting tasks are cancelled
    first, and leased ones still refuse.
    """

    id: QueueId = QueueId(0)
    name: str | None = None
    policy: Policy | None = None
    paused_until: Wall | None = None
    delete: bool = False
    drop: bool = False
    if_absent: bool = False


AS_IT_SAYS: Final = -1
"""In place of a node's limit: the slots that it says it has."""


class NodeChange(NamedTuple):
    """Register a node, beat for it, drain it, let it take tasks again, limit it, or let it leave.

    All but the first name its id and token. A beat keeps what was told last of its vitals, unless it tells them anew.
    `limit`: it holds so many tasks at once, whatever it says of itself, now and whenever its name registers again;
    `AS_IT_SAYS` takes that back.
    """

    id: NodeId = NodeId(0)
    token: str = ""
    register: Registration | None = None
    beat: bool = False
    lease: int | None = None
    drain: bool = False
    leave: bool = False
    resume: bool = False
    vitals: Vitals | None = None
    limit: int | None = None


class Configure(NamedTuple):
    """One change of one queue or one node."""

    queue: QueueChange | None = None
    node: NodeChange | None = None
    act: Act | None = None


class Configured(NamedTuple):
    """What it is now. Of a beating node's leased tasks `kills` are to be killed, `followed` are read by somebody."""

    queue: Queue | None = None
    node: Node | None = None
    kills: tuple[TaskId, ...] = ()
    followed: tuple[TaskId, ...] = ()


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

    `promote` moves due tasks to queued. `release` follows edges and groups that were left over, and repairs those that
    a crash of a weaker store left. `lapse` marks nodes whose lease has ended as lost and returns tasks whose lease has
    ended (changing nothing else). `prune_before` removes final tasks that ended before then, and events and nodes as
    old; with `strangers` those that strangers made, which are never removed without it, and nothing else. `trim_output`
    removes the oldest output of final tasks until at most that many bytes are stored. `blobs` asks which of these
    hashes no row names.
    """

    most: int = 1_000
    promote: bool = False
    release: bool = False
    lapse: bool = False
    prune_before: Wall | None = None
    strangers: bool = False
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
    """Which tasks: every given field must match. `after` is a cursor; `newest_first` walks down from it.

    `with_parents` also asks for the edges above each task, at most `SHOWN_PARENTS` of each.
    """

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
    with_parents: bool = False


SHOWN_PARENTS = 100


class Page(NamedTuple):
    """A page may be short, even empty, and still have a `next`: only None means the end.

    `parents` are, where they were asked for, the edges above each of the tasks, in the order of the tasks.
    """

    tasks: list[Task]
    next: Position | None
    parents: tuple[tuple[Edge, ...], ...] = ()


class Look(NamedTuple):
    """A task, its family and its attempts (each at most `most`, the newest), and the keys of its data."""

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
    last_event: Position = Position(0)
    """The position of the newest event."""
