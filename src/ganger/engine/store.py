"""THE CONTRACT between the engine and whatever keeps the tasks.

The engine decides, the store applies. A decision travels as a value (a `Move`, a `Note`, an `Edit`) that names the rule
and the lease under which it was made, and the store applies a batch of them in one atomic, durable step, each only if
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
  raises `StoreUnavailable` or `StoreBroken` the outcome is unknown and the same request may be sent again; with any
  other error nothing of it was stored.
- *Time* is the store's, read once per step inside it. No time of a caller is compared with a lease.
- *Order*: steps are linearizable. Positions are handed out in the order of commits.
- *Fence*: whatever a holder writes names its fence and is refused as stale if that is not the task's newest, if the
  lease has ended, or if its node is not there.
- *Errors* are those of `core.errors`; a foreign exception never passes.
- *Bounds*: a store does bounded work per step. What is larger (a parent of a million children) is stored as work left
  over and done in further steps by `tend`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from ganger.core.audit import Act, AuditLine
from ganger.core.errors import GangerError
from ganger.core.event import Event
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.node import Node
from ganger.core.queue import Counts
from ganger.core.task import Eager, Task
from ganger.engine.request import (
    AS_IT_SAYS,
    SHOWN_PARENTS,
    Change,
    Chunk,
    Claim,
    Configure,
    Configured,
    Datum,
    Directory,
    Edit,
    Edits,
    Exchange,
    Exchanged,
    Lapsed,
    Look,
    NodeChange,
    Note,
    Page,
    Past,
    Progress,
    Query,
    QueueChange,
    Submission,
    Submitted,
    Tend,
    Tended,
    Touch,
    Value,
)

__all__ = [
    "AS_IT_SAYS",
    "CLAIMED_SPEC",
    "EVENTS_TOPIC",
    "FOLLOWED_TOPIC",
    "INLINE_SPEC",
    "LONGEST_FOLLOW",
    "MOST_FOLLOWED",
    "NODES_TOPIC",
    "OUTPUT_TOPIC",
    "QUEUES_TOPIC",
    "QUEUE_TOPIC",
    "RESET_TOPIC",
    "SHOWN_PARENTS",
    "STEP_EDGES",
    "Capabilities",
    "Change",
    "Chunk",
    "Claim",
    "Configure",
    "Configured",
    "Datum",
    "Directory",
    "Edit",
    "Edits",
    "Exchange",
    "Exchanged",
    "Lapsed",
    "Look",
    "NodeChange",
    "Note",
    "Page",
    "Past",
    "Progress",
    "Query",
    "QueueChange",
    "Store",
    "Submission",
    "Submitted",
    "Tend",
    "Tended",
    "Touch",
    "Value",
]

INLINE_SPEC = 1024
"""A spec up to this size lies in the task itself; a larger one is its data `spec`."""

CLAIMED_SPEC = 64 * 1024
"""A spec up to this size travels with a claim."""

MOST_FOLLOWED = 4_096
"""So many tasks are known to be followed at once."""

LONGEST_FOLLOW = 60_000
"""Milliseconds: whoever asks to be believed longer is believed so long."""

STEP_EDGES = 1_000
"""How many edges one step follows; the rest is left to `tend`."""


class Capabilities(NamedTuple):
    """What a store can do beyond the least that the contract asks; the conformance suite asks before it expects."""

    durable: bool
    shared: bool
    """Several processes may open it at once."""
    foreign_writers: bool = False
    """Strangers write to it too, so leases that they hold cannot be fenced."""
    unique_names: bool = False
    """No two queues have one name: a second one is refused with Conflict."""
    distant: bool = False
    """It lives on a server that may be away for a minute: leases should be long enough to outlive that."""


@runtime_checkable
class Prompt(Protocol):
    """What a store may offer besides: an answer on the very thread that asks, which waits for it and does nothing else.

    For programs without an event loop: a change of threads costs as much as the step itself.
    """

    def submit_now(self, request: Submission) -> Submitted:
        """As `Store.submit`, from any thread but that of an event loop."""
        ...

    def post_now(self, request: Submission) -> Callable[[], Submitted]:
        """As `submit_now`, but it may return as soon as the tasks are safe, before anybody can see them.

        They are stored a moment later, whoever dies, unless their queue is gone by then. What is returned waits for
        that and gives the reply. It is for submissions that refer to no other task and have no key.
        """
        ...


@runtime_checkable
class Attentive(Protocol):
    """What a store may offer besides: a claim that is left with it, and made in the very step that brings the tasks."""

    def attend(
        self,
        request: Exchange,
        topics: Sequence[str],
        told: Callable[[Exchanged | None], None],
        eager: Eager | None = None,
    ) -> Callable[[], bool]:
        """Make this exchange, once, in the next step that wakes one of the topics, if this process makes that step.

        Nobody may rely on it: whoever attends listens to the topics too. `told` is called with the reply, or with None
        if it failed, before the topics are told. `eager` hears of what was claimed even before that, on a thread of the
        store. Returns what takes the request back: False if it was made, or is being made.
        """
        ...


@runtime_checkable
class Sociable(Protocol):
    """What a store may offer besides: exchanges of several holders, handed in together by one who waits for all."""

    async def exchange_each(
        self, requests: Sequence[Exchange], near: Callable[[], None] | None = None
    ) -> list[Exchanged | GangerError]:
        """As `Store.exchange` of each; a reply or an error for each, in their order. None fails for another's sake.

        `near` may be called, once, when all of them were made and are about to be safe.
        """
        ...


class Odd(NamedTuple):
    """A document of strangers that makes no sense and is left alone: where it lies, its id, and what is odd in it."""

    collection: str
    id: str
    what: str


@runtime_checkable
class Strangers(Protocol):
    """What a store may offer besides in which strangers hold tasks: their leases are never ended by upkeep."""

    async def orphan_of(self, node: str, act: Act) -> list[TaskId] | None:
        """End what a stranger's node has in hand as orphaned; returns those tasks, None if no such node is known.

        Each by itself, and only if that node still has it. The act is written down first; what follows is told by
        upkeep, like whatever strangers do.
        """
        ...

    async def strangers(self) -> list[Node]:
        """The nodes of other makes. They have no registration here, so their ids are 0; those not heard of are lost."""
        ...

    async def limit_stranger(self, node: str, slots: int | None, act: Act) -> Node | None:
        """Write down the limit of a stranger's node, for it to obey; None if there is no such node.

        The act is written down first. Idempotent.
        """
        ...

    async def list_odd(self, most: int) -> list[Odd]:
        """Documents that make no sense, at most so many. All are looked at: this takes a while."""
        ...

    async def find_odd(self, id: str) -> Odd | None:
        """Why the task or queue whose document has this id makes no sense; None if it does, or is not there."""
        ...

    async def holder_of(self, task: TaskId) -> str | None:
        """The name of the node that has or last had the task, of whatever make; None if nobody has."""
        ...


class Store(Protocol):
    """What the engine needs of whatever keeps the tasks: fifteen operations."""

    @property
    def capabilities(self) -> Capabilities: ...

    async def submit(self, request: Submission) -> Submitted:
        """Store new tasks with their edges, groups, batches and the event of each queue. Atomic.

        A task is born blocked if an edge is undecided (or if its kind takes no slot), delayed if it is due later, else
        queued; if an edge can never hold it is cancelled at once. Ids grow in the order of the tasks, positions
        likewise. Data are there when a task is: no holder ever sees one without them. One with a past is
        born as it ended: edges from it are decided, and an open group has it behind it.

        Raises DuplicateKey (field `task`: who has it), UnknownParent, UnknownGroup, QueueNotFound, StaleLease,
        StoreFull. A cycle was refused above. Not idempotent by itself: give keys with `return` to send it again safely.
        """
        ...

    async def exchange(self, request: Exchange) -> Exchanged:
        """Apply moves, each by itself (or all or nothing), and then claim. One step.

        Notes are stored as by `write`; one that is refused changes nothing and is not told, since the move of its
        holder is refused too. A move is applied if `judge` says so; else it is in `refused` and changes nothing. With
        `all_or_nothing` the first refusal raises StaleLease, WrongStatus or TaskNotFound. A repeated move is refused
        the second time. Several moves of one task in a step are applied in their order.

        The claim first promotes due tasks of its queues. It gives the tasks of the best priority over all queues, then
        by each queue's sort, from the lanes that are open to the holder, as far as every limit allows; a paused queue
        gives none. Each has a new fence and a lease. Named `ids` are given if queued and allowed, and left out
        otherwise. Raises NodeGone if the claim's holder is not live, or drains.
        """
        ...

    async def write(self, notes: tuple[Note, ...]) -> list[tuple[int, str]]:
        """Store what holders say without moving their tasks, each by itself; returns the refused (index, verdict).

        Touch, progress and chunks need a valid lease. A datum needs one, or fence 0 and a task that is not final (keys
        other than `spec`, which Edit changes). Idempotent: the same note twice leaves the same state.

        A follow needs a task that is not final, and no lease. It ends by itself, and alone of all that is written here
        it may be forgotten sooner: with the process that has it, or when `MOST_FOLLOWED` others end later. Whoever
        follows says so again before it ends.
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
        token it returns that one, renewed. A beat renews every lease that lives by the node's liveness; NodeGone tells
        a node that its registration has ended and that all its leases are lost: it must register anew. Also raises
        QueueNotFound, QueueInUse.
        """
        ...

    async def tend(self, step: Tend) -> Tended:
        """Do one bounded step of upkeep. Idempotent: any number of parties may call it at any time."""
        ...

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        """The tasks with these ids, in this order; None where there is none."""
        ...

    async def find(self, query: Query) -> Page:
        """Tasks in the order of their positions.

        A walk by cursor sees each task that matches throughout exactly once.
        """
        ...

    async def look(self, task: TaskId, most: int = 100) -> Look:
        """Everything about one task. Raises TaskNotFound."""
        ...

    async def value(
        self, task: TaskId, key: str, start: int = 0, most: int = 65_536, fence: Fence | None = None
    ) -> Value:
        """A part of a datum, or of an output stream (key `out:<stream>`, of that attempt or else the newest that has
        some).

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

        Topics: `queue:<id>` (a task of it became ready, or is due earlier than any before), `events` (there are new
        ones), `nodes`, `queues`, `output:<task>` (a chunk of it was stored), `followed` (a task that is leased has
        somebody who follows it, and had not before). A wake-up may be spurious, and several may become one. One that
        is lost on its way, with a connection or without, is made up for within a second of the commit, as long as the
        store can be reached (of `output` alone nobody is told again: look for yourself). After `reset` look as well.
        """
        ...


QUEUE_TOPIC = "queue:{}"
EVENTS_TOPIC = "events"
NODES_TOPIC = "nodes"
QUEUES_TOPIC = "queues"
FOLLOWED_TOPIC = "followed"
OUTPUT_TOPIC = "output:{}"
RESET_TOPIC = "reset"
