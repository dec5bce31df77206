"""The seven ways to write to a store, each with the trace that one operation leaves: from it the books are kept."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from ganger.core.audit import Act
from ganger.core.event import Event, Fact
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, Position, QueueId, TaskId
from ganger.core.state import move
from ganger.core.task import Claimed, Kind, NewTask
from ganger.engine.store import (
    Change,
    Claim,
    Configure,
    Edit,
    Edits,
    Exchange,
    NodeChange,
    Note,
    Progress,
    Query,
    QueueChange,
    Submission,
    Tend,
)
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing import Entry, Outcome
from tests.system.harness_store import make_queue, open_store, register, succeed

MANY: Final = 300
WIDE: Final = 1_200
"""Children of one parent: more than one step follows, so that upkeep has something left."""

EVERYTHING: Final = 1_000_000


class Seeded(NamedTuple):
    """The queues of the seeded file, one for each path."""

    submit: QueueId
    exchange: QueueId
    write: QueueId
    edit: QueueId
    tend: QueueId


async def seed(path: Path) -> Seeded:
    """A file with enough for every path to do."""
    store = await open_store(path)
    queues = Seeded(*[await make_queue(store, name) for name in Seeded._fields])
    for queue in (queues.exchange, queues.write, queues.edit):
        await store.submit(Submission((NewTask(queue, Kind.PAYLOAD),) * MANY))
    await store.submit(Submission((NewTask(queues.tend, Kind.PAYLOAD, delay=1),) * MANY))
    await _leave_edges(store, queues.tend)
    await store.close()
    return queues


async def _leave_edges(store: SqliteStore, queue: QueueId) -> None:
    """End a parent of so many children that some are left to be released."""
    tasks = [NewTask(queue, Kind.PAYLOAD, parents=(Edge(-1),) if child else ()) for child in range(WIDE + 1)]
    submitted = await store.submit(Submission(tuple(tasks)))
    node = await register(store, "seed")
    done = await store.exchange(Exchange(claim=Claim(node.id, ids=(submitted.ids[0],))))
    await store.exchange(Exchange(succeed(done.claimed)))
    await store.configure(Configure(node=NodeChange(node.id, "seed", leave=True)))


def act(name: str, op: str) -> Act:
    return Act("test", name, json.dumps(op))


@dataclass
class Hand:
    """What one worker has: a node of its own, and the tasks that it was given."""

    store: SqliteStore
    queues: Seeded
    node: NodeId
    open: list[TaskId]
    claimed: list[Claimed] = field(default_factory=list)
    turns: int = 0

    @classmethod
    async def make(cls, store: SqliteStore, queues: Seeded, who: str) -> "Hand":
        node = await register(store, who)
        page = await store.find(Query(queue=queues.edit, most=MANY))
        return cls(store, queues, node.id, [task.id for task in page.tasks])

    async def look(self) -> None:
        """After an answer that left it open whether it happened: see what is really held."""
        held = {task.id: task for task in (await self.store.find(Query(holder=self.node, most=MANY))).tasks}
        known = [one for one in self.claimed if one.id in held and held[one.id].fence == one.fence]
        fresh = tuple(task for task in held if task not in {one.id for one in known})
        lost = [move(task, "release", held[task].fence) for task in fresh]
        await self.store.exchange(Exchange(tuple(lost)))
        self.claimed = known


async def _submit(hand: Hand, op: str) -> int:
    """A parent and its child: both or none."""
    tasks = (
        NewTask(hand.queues.submit, Kind.PAYLOAD, key=op),
        NewTask(hand.queues.submit, Kind.PAYLOAD, parents=(Edge(-1),), key=f"{op}/child"),
    )
    await hand.store.submit(Submission(tasks))
    return 1


async def _post(hand: Hand, op: str) -> int:
    """A letter: acknowledged before anybody else has seen it."""
    task = NewTask(hand.queues.submit, Kind.PAYLOAD, description=op)
    await asyncio.to_thread(hand.store.post_now, Submission((task,)))
    return 1


async def _exchange(hand: Hand, op: str) -> int:
    claim = Claim(hand.node, (hand.queues.exchange,), most=2, start=True)
    done = await hand.store.exchange(Exchange(succeed(hand.claimed), claim, act=act("exchange", op)))
    assert not done.refused, f"{op}: a settle that was made once was refused, so it was made twice: {done.refused}"
    hand.claimed = done.claimed
    return 1


async def _write(hand: Hand, op: str) -> int:
    if not hand.claimed:
        claim = Claim(hand.node, (hand.queues.write,), start=True)
        hand.claimed = (await hand.store.exchange(Exchange(claim=claim))).claimed
    (mine,) = hand.claimed
    refused = await hand.store.write((Note(mine.id, mine.fence, progress=Progress(50.0, op)),))
    assert not refused
    return 1


async def _edit(hand: Hand, op: str) -> int:
    hand.turns += 1
    child, parent = hand.open[hand.turns % MANY], hand.open[0]
    edits = [Edit(child, change=Change(description=op))]
    if child != parent:
        edits.append(Edit(child, link=(parent, "success")))
    await hand.store.edit(Edits(tuple(edits), act=act("edit", op)))
    return 1


async def _configure(hand: Hand, op: str) -> int:
    """A name may be used by many queues, so one that was made twice would show."""
    await hand.store.configure(Configure(queue=QueueChange(name=op), act=act("configure", op)))
    return 1


async def _tend(hand: Hand, op: str) -> int:
    hand.turns += 1
    promote = hand.turns % 2 == 0
    return (await hand.store.tend(Tend(most=1, promote=promote, release=not promote))).done


class Found(NamedTuple):
    """What a store holds when all is over, as far as traces are concerned."""

    keys: list[str]
    letters: list[str]
    queues: list[str]
    acts: list[tuple[str, str]]
    events: list[Event]
    seeded: Seeded


async def find_traces(store: SqliteStore, seeded: Seeded) -> Found:
    page = await store.find(Query(queue=seeded.submit, most=EVERYTHING))
    directory = await store.directory()
    lines = await store.audit(Position(0), EVERYTHING)
    return Found(
        [task.key for task in page.tasks if task.key is not None],
        [task.description for task in page.tasks if task.description is not None],
        [queue.name for queue in directory.queues if queue.name not in Seeded._fields],
        [(line.action, json.loads(line.detail)) for line in lines if line.who == "test"],
        await store.events(Position(0), EVERYTHING),
        seeded,
    )


def _submit_traces(found: Found, entries: Sequence[Entry]) -> list[str]:
    parents = [key for key in found.keys if not key.endswith("/child")]
    assert sorted(f"{key}/child" for key in parents) == sorted(set(found.keys) - set(parents)), "half a submission"
    return parents


def _post_traces(found: Found, entries: Sequence[Entry]) -> list[str]:
    return found.letters


def _exchange_traces(found: Found, entries: Sequence[Entry]) -> list[str]:
    return [op for action, op in found.acts if action == "exchange"]


def _write_traces(found: Found, entries: Sequence[Entry]) -> list[str]:
    told = [entry.reason for event in found.events if event.fact == Fact.PROGRESSED for entry in event.entries]
    return [op for op in told if op is not None]


def _edit_traces(found: Found, entries: Sequence[Entry]) -> list[str]:
    return [op for action, op in found.acts if action == "edit"]


def _configure_traces(found: Found, entries: Sequence[Entry]) -> list[str]:
    assert sorted(op for action, op in found.acts if action == "configure") == sorted(found.queues)
    return found.queues


def _tend_traces(found: Found, entries: Sequence[Entry]) -> list[str]:
    """Upkeep signs nothing: its steps are told by their number. One that found nothing to do leaves no trace."""
    rows = sum(event.fact == Fact.READIED and event.queue == found.seeded.tend for event in found.events)
    rows -= 1  # the seed's own settle told of the first children
    idle = [str(entry.keys[0]) for entry in entries if entry.outcome is Outcome.OK and not entry.result]
    done = [str(entry.keys[0]) for entry in entries if entry.outcome is Outcome.OK and entry.result]
    maybe = [str(entry.keys[0]) for entry in entries if entry.outcome is Outcome.UNKNOWN]
    owners = [*done, *maybe]
    return [*idle, *owners[:rows], *(f"nobody's {number}" for number in range(rows - len(owners)))]


class WritePath(NamedTuple):
    """One operation: `do` does it once and says whether it left a trace; `traces` finds what all of them left."""

    name: str
    do: Callable[[Hand, str], Awaitable[int]]
    traces: Callable[[Found, Sequence[Entry]], list[str]]


WRITE_PATHS: Final[dict[str, WritePath]] = {
    path.name: path
    for path in (
        WritePath("submit", _submit, _submit_traces),
        WritePath("post", _post, _post_traces),
        WritePath("exchange", _exchange, _exchange_traces),
        WritePath("write", _write, _write_traces),
        WritePath("edit", _edit, _edit_traces),
        WritePath("configure", _configure, _configure_traces),
        WritePath("tend", _tend, _tend_traces),
    )
}


def traced(found: Found, name: str, entries: Sequence[Entry]) -> list[Any]:
    return WRITE_PATHS[name].traces(found, entries)
