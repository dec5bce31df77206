"""The list of workers: those that are here, and for a while those that were; and what came of their jobs.

Each registration is a node, so that the engine knows its holder and can keep a failed job from it, and has a number of
its own here. Successes and failures are counted per id, which stays the same over many connections. What is counted,
and who was here last, is handed out as a `Roll`, so that it outlasts the server.

A worker without a websocket is here from one request to the next; when it has not been heard for as long as its lease
is, it is gone.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import count
from typing import Final, NamedTuple

from ganger.core.clock import Clock, Wall
from ganger.core.errors import NodeGone
from ganger.core.ids import NodeId, TaskId
from ganger.faces.jobs.conduct import Conduct
from ganger.runtime.telemetry import SILENT, Telemetry

_MOST_GONE: Final = 1_000
_MOST_TALLIES: Final = 100_000
NODE_PREFIX: Final = "worker "
"""The node that a worker is for the engine is called so, and by its id."""

GONE: Final = "gone"
WAITING: Final = "waiting"
ASIDE: Final = "set aside"
KICKED: Final = "an operator sent this worker away"


class Seen(NamedTuple):
    """A worker as it was last seen. `left` is None while it is here; `last` is the state in which it was when it went.

    `lapse` is after how many milliseconds of silence it is gone; None if it has a connection, which says so itself.
    """

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
    last: str | None = None
    lapse: int | None = None


class Tally(NamedTuple):
    succeeded: int = 0
    failed: int = 0


_NONE: Final = Tally()


class Reins(NamedTuple):
    """What can be done to a worker: have it give a job up that somebody killed, and send it away."""

    recall: Callable[[TaskId], None]
    send_away: Callable[[], None]


class Roll(NamedTuple):
    """What outlasts the server: the counts by id, and who is not here any more."""

    tallies: dict[str, Tally]
    gone: list[Seen]


class _Present:
    """A worker that is here. It is noted with every message, so that is one assignment each."""

    __slots__ = ("entered", "job", "reins", "seen", "state")

    def __init__(self, entered: Seen, reins: Reins) -> None:
        self.entered = entered
        self.reins = reins
        self.state = entered.state
        self.seen = entered.seen
        self.job: TaskId | None = None

    def show(self) -> Seen:
        return self.entered._replace(state=self.state, seen=self.seen, job=self.job)


class Workers:
    """Who is there. All of it is used from one event loop, a step at a time."""

    def __init__(self, clock: Clock, telemetry: Telemetry = SILENT) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._conduct = Conduct(clock)
        self._numbers = count(1)
        self._here: dict[int, _Present] = {}
        self._by_node: dict[NodeId, int] = {}
        self._kicked: set[NodeId] = set()
        self._gone: OrderedDict[str, Seen] = OrderedDict()
        self._tallies: OrderedDict[str, Tally] = OrderedDict()
        self.changes = 0

    def __len__(self) -> int:
        return len(self._here)

    def enrol(self, worker: Seen, reins: Reins) -> int:
        """Enter a worker; its number from now on."""
        number = next(self._numbers)
        self._here[number] = _Present(worker, reins)
        self._by_node[worker.node] = number
        self._gone.pop(worker.node_name, None)
        return number

    def note(self, number: int, state: str, job: TaskId | None) -> None:
        """It was heard, and is in this state."""
        present = self._here[number]
        present.state, present.job, present.seen = state, job, self._clock.wall()

    def dismiss(self, number: int) -> None:
        """It is gone; what was known of it is kept for a while."""
        present = self._here.pop(number, None)
        if present is None:
            return
        was = present.show()
        self._kicked.discard(was.node)
        if self._by_node.get(was.node) == number:
            del self._by_node[was.node]
        self._keep(was._replace(state=GONE, last=was.state, left=self._clock.wall(), job=None))

    def _keep(self, gone: Seen) -> None:
        self._gone[gone.node_name] = gone
        self._gone.move_to_end(gone.node_name)
        if len(self._gone) > _MOST_GONE:
            self._gone.popitem(last=False)
        self.changes += 1

    def tally(self, identity: str, *, succeeded: bool) -> None:
        done, failed = self._tallies.pop(identity, _NONE)
        self._tallies[identity] = Tally(done + succeeded, failed + (not succeeded))
        if succeeded:
            self._conduct.forgive(identity)
        elif self._conduct.note_failure(identity):
            self._telemetry.event("worker_set_aside", worker=identity, seconds=self.find_rest(identity))
        if len(self._tallies) > _MOST_TALLIES:
            self._tallies.popitem(last=False)
        self.changes += 1

    def find_rest(self, identity: str) -> float:
        """For how many seconds it gets no job, because it failed so often in a row; 0 if it may have one."""
        return self._conduct.find_rest(identity) / 1000

    async def rest(self, identity: str) -> None:
        """Wait until it may have a job."""
        while seconds := self.find_rest(identity):  # noqa: ASYNC110 - only the clock ends it, and it may grow meanwhile
            await asyncio.sleep(seconds)

    def is_aside(self, identity: str) -> bool:
        """Does it get nothing but a job now and then, to show that it is well?"""
        return self._conduct.is_aside(identity)

    def forgive(self, identity: str) -> None:
        """An operator has looked after it."""
        self._conduct.forgive(identity)

    def tally_number(self, number: int, *, succeeded: bool) -> None:
        """Count for the worker that has this number."""
        self.tally(self._here[number].entered.identity, succeeded=succeeded)

    def count(self, identity: str) -> Tally:
        """How many jobs of it went well, and how many did not."""
        return self._tallies.get(identity, _NONE)

    def list_all(self) -> Iterator[Seen]:
        """Those that are here, then those that went, the last one first."""
        self._drop_silent()
        yield from (present.show() for present in self._here.values())
        yield from reversed(self._gone.values())

    def _drop_silent(self) -> None:
        now = self._clock.wall()
        for number, present in list(self._here.items()):
            lapse = present.entered.lapse
            if lapse is not None and now - present.seen > lapse:
                if present.job is not None:
                    self.tally(present.entered.identity, succeeded=False)
                self.dismiss(number)

    def find_number(self, node: NodeId) -> int | None:
        """The number of the worker that is this node."""
        return self._by_node.get(node)

    def find_named(self, name: str) -> list[Seen]:
        """Those that are here and have this id, or are the node of this name."""
        self._drop_silent()
        shown = [present.show() for present in self._here.values()]
        return [worker for worker in shown if name in (worker.identity, worker.node_name)]

    def name_node(self, node_name: str) -> str | None:
        """The name of the worker that is or was the node of this name, if that is known."""
        here = (present.entered for present in self._here.values() if present.entered.node_name == node_name)
        seen = next(here, None) or self._gone.get(node_name)
        return None if seen is None else seen.name

    def name_holder(self, node: NodeId | None) -> str | None:
        """The name of the worker that is this node, if it is here."""
        number = None if node is None else self._by_node.get(node)
        return None if number is None else self._here[number].entered.name

    def recall(self, task: TaskId) -> None:
        """Have whoever works on this give it up; each knows best what it has."""
        for present in list(self._here.values()):
            present.reins.recall(task)

    def expect_kick(self, node: NodeId) -> None:
        """An operator is about to send the worker away that is this node: whatever ends it meanwhile is that."""
        self._kicked.add(node)

    def is_kick(self, node: NodeId, error: BaseException | None) -> bool:
        """Has it met the drain before it was told who wanted that?"""
        return isinstance(error, NodeGone) and node in self._kicked

    def send_away(self, node: NodeId) -> None:
        """Have the worker that is this node leave, if it is here."""
        number = self._by_node.get(node)
        if number is not None:
            self._here[number].reins.send_away()

    def call(self) -> Roll:
        """What is to be kept."""
        return Roll(dict(self._tallies), list(self._gone.values()))

    def restore(self, roll: Roll) -> None:
        """Go on from what was kept, which may be a moment after the first have come."""
        for identity, (succeeded, failed) in roll.tallies.items():
            done, undone = self.count(identity)
            self._tallies[identity] = Tally(done + succeeded, undone + failed)
        for gone in roll.gone[-_MOST_GONE:]:
            self._gone.setdefault(gone.node_name, gone)
