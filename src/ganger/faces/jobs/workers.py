"""The list of workers: those that are connected, and for a while those that were; and what came of their jobs.

Each connection has a number of its own and is one registration of a node, so that the engine knows its holder and can
keep a failed job from it. Successes and failures are counted per id, which stays the same over many connections.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final, NamedTuple

from ganger.core.clock import Clock, Wall
from ganger.core.ids import NodeId, TaskId

_MOST_GONE: Final = 1_000
_MOST_TALLIES: Final = 100_000


class Seen(NamedTuple):
    """A worker as it was last seen. `left` is None while it is connected."""

    number: int
    identity: str
    name: str
    job_type: str | None
    address: str
    node: NodeId
    node_name: str
    state: str
    since: Wall
    seen: Wall
    left: Wall | None = None
    job: TaskId | None = None


class Tally(NamedTuple):
    succeeded: int = 0
    failed: int = 0


Recall = Callable[[TaskId], None]
"""Asks a connection to give a job up because somebody killed it."""


class Workers:
    """Who is there. All of it is used from one event loop, a step at a time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = count(1)
        self._here: dict[int, Seen] = {}
        self._recalls: dict[int, Recall] = {}
        self._by_node: dict[NodeId, int] = {}
        self._gone: OrderedDict[int, Seen] = OrderedDict()
        self._tallies: OrderedDict[str, Tally] = OrderedDict()

    def __len__(self) -> int:
        return len(self._here)

    def enrol(self, worker: Seen, recall: Recall) -> int:
        """Enter a worker; its number from now on."""
        number = next(self._numbers)
        self._here[number] = worker._replace(number=number)
        self._recalls[number] = recall
        self._by_node[worker.node] = number
        return number

    def note(self, number: int, state: str, job: TaskId | None) -> None:
        """It was heard, and is in this state."""
        self._here[number] = self._here[number]._replace(state=state, job=job, seen=self._clock.wall())

    def dismiss(self, number: int) -> None:
        """It is gone; what was known of it is kept for a while."""
        self._recalls.pop(number)
        gone = self._here.pop(number)
        del self._by_node[gone.node]
        self._gone[number] = gone._replace(state="gone", left=self._clock.wall(), job=None)
        if len(self._gone) > _MOST_GONE:
            self._gone.popitem(last=False)

    def tally(self, identity: str, *, succeeded: bool) -> None:
        done, failed = self.count(identity)
        self._tallies[identity] = Tally(done + succeeded, failed + (not succeeded))
        self._tallies.move_to_end(identity)
        if len(self._tallies) > _MOST_TALLIES:
            self._tallies.popitem(last=False)

    def count(self, identity: str) -> Tally:
        """How many jobs of it went well, and how many did not."""
        return self._tallies.get(identity, Tally())

    def list_all(self) -> Iterator[Seen]:
        """Those that are here, then those that went, the last one first."""
        yield from self._here.values()
        yield from reversed(self._gone.values())

    def name_holder(self, node: NodeId | None) -> str | None:
        """The name of the connected worker that is this node."""
        number = None if node is None else self._by_node.get(node)
        return None if number is None else self._here[number].name

    def recall(self, task: TaskId) -> None:
        """Have whoever works on this give it up."""
        for number, worker in self._here.items():
            if worker.job == task:
                self._recalls[number](task)
