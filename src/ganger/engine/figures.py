"""How much there is to do: for each queue how deep it is, how old its oldest ready task is, how fast it goes, and how
many workers it could use.

All of it is cheap to ask, however many tasks there are. Counts are kept by the store. Rates are differences of its
counters, of which a sample is kept every few seconds. The oldest ready task is the one that has been ready for longest
among the first of those that are ready, as they were added: one that is tried again may stand before others that have
waited for longer. Those are looked for in bounded steps from where the last search ended, since what lies before has
run. A second search follows from the beginning, again and again: what is tried again is ready once more where it was.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

from ganger.core.clock import Clock, Moment
from ganger.core.ids import Position, QueueId
from ganger.core.node import Node, NodeState
from ganger.core.queue import Counts, Queue
from ganger.core.state import Status
from ganger.core.task import Task
from ganger.engine.store import Query, Store
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

WINDOW: Final = 60_000
"""Rates are those of the last minute."""

_EVERY: Final = 5_000
_SHORTEST: Final = 1_000
_PAGES: Final = 5
_COMPARED: Final = 100
Facts = Mapping[QueueId, Mapping[str, int]]


class Figures(NamedTuple):
    """One queue. `oldest` are the milliseconds since its oldest ready task became ready; None if none is, or if it
    has not been found yet. `rates` are facts in a second, empty as long as nothing can be said.

    `running` are those that a holder has begun, `claimed` those that it has and has not begun. `wanted_slots` is how
    many of its tasks could run at this moment, both of these included; `wanted_workers` is how many workers have so
    many slots.
    """

    queue: Queue
    counts: Counts
    facts: Mapping[str, int]
    paused: bool
    ready: int
    running: int
    claimed: int
    oldest: int | None
    rates: Mapping[str, float]
    wanted_slots: int
    wanted_workers: int


@dataclass(slots=True)
class _Search:
    """Behind which places to look for ready tasks: for the first, and for those that came back before it."""

    first: Position | None = None
    back: Position | None = None


class Meter(Service):
    """Reads the figures of one store, and keeps the samples that rates need."""

    def __init__(self, store: Store, clock: Clock, telemetry: Telemetry = SILENT) -> None:
        super().__init__("meter", telemetry=telemetry)
        self._store = store
        self._clock = clock
        self._samples: deque[tuple[Moment, Facts]] = deque(maxlen=WINDOW // _EVERY + 1)
        self._searches: dict[QueueId, _Search] = {}

    async def run(self) -> None:
        while not self.draining.is_set():
            self.sample((await self._store.counts())[1])
            with suppress(TimeoutError):
                async with asyncio.timeout(_EVERY / 1000):
                    await self.draining.wait()

    def sample(self, facts: Facts) -> None:
        """Remember how often facts were told until now."""
        self._samples.append((self._clock.now(), facts))

    async def read(self, slots: int | None = None) -> list[Figures]:
        """The figures of all queues. Uses: directory, counts, find.

        A worker is taken to have so many slots; unless that is said, as many as those that are here have on average,
        and one if none is here.
        """
        directory = await self._store.directory()
        counts, facts = await self._store.counts()
        by_queue = {each.queue: each for each in counts}
        here = [node for node in directory.nodes if node.live(self._clock.now()) and node.state == NodeState.ACTIVE]
        return [
            await self._measure(
                queue, by_queue.get(queue.id, Counts(queue.id, {}, 0)), facts, _size(queue, here, slots)
            )
            for queue in directory.queues
        ]

    async def _measure(self, queue: Queue, counts: Counts, facts: Facts, size: int) -> Figures:
        ready = counts.by_status.get(Status.QUEUED, 0)
        running, claimed = (counts.by_status.get(status, 0) for status in (Status.RUNNING, Status.CLAIMED))
        paused = queue.paused(self._clock.wall())
        wanted = _count_wanted(queue, ready, running + claimed, paused=paused)
        oldest = await self._find_oldest(queue.id) if ready else None
        age = None if oldest is None else max(0, self._clock.wall() - oldest.modified)
        own = facts.get(queue.id, {})
        workers = _count_workers(queue, wanted, size)
        rates = self._rate(queue.id, own)
        return Figures(queue, counts, own, paused, ready, running, claimed, age, rates, wanted, workers)

    def _rate(self, queue: QueueId, facts: Mapping[str, int]) -> dict[str, float]:
        now = self._clock.now()
        before = next(((at, told) for at, told in self._samples if now - at <= WINDOW), None)
        if before is None or now - before[0] < _SHORTEST:
            return {}
        seconds, then = (now - before[0]) / 1000, before[1].get(queue, {})
        return {fact: round(max(0, number - then.get(fact, 0)) / seconds, 3) for fact, number in facts.items()}

    async def _find_oldest(self, queue: QueueId) -> Task | None:
        """If so many steps do not find it, the next question goes on from there."""
        search = self._searches.setdefault(queue, _Search())
        if search.first is not None:
            await self._look_back(queue, search)
        return min(await self._look(queue, search), key=_modified, default=None)

    async def _look(self, queue: QueueId, search: _Search) -> Sequence[Task]:
        """Some of those that are ready, as they were added."""
        for _ in range(_PAGES):
            page = await self._store.find(Query(queue, (Status.QUEUED,), after=search.first, most=_COMPARED))
            if page.tasks:
                return page.tasks
            search.first = page.next
            if page.next is None:
                break
        return ()

    async def _look_back(self, queue: QueueId, search: _Search) -> None:
        """A few steps of the way to the place of the first: if one is ready there, it is the first."""
        for _ in range(_PAGES):
            page = await self._store.find(Query(queue, (Status.QUEUED,), after=search.back, most=1))
            place = page.tasks[0].position if page.tasks else page.next
            if search.first is None or place is None or place > search.first:
                search.back = None
                return
            if page.tasks:
                search.first, search.back = Position(place - 1), None
                return
            search.back = place


def _modified(task: Task) -> int:
    return task.modified


def _count_wanted(queue: Queue, ready: int, leased: int, *, paused: bool) -> int:
    """How many slots its tasks could fill: none of a paused queue begins, and no more run than its limit allows."""
    if paused:
        return leased
    limit = queue.policy.max_active
    return ready + leased if limit is None else max(leased, min(ready + leased, limit))


def _size(queue: Queue, here: Sequence[Node], slots: int | None) -> int:
    """How many tasks of this queue one node runs at once."""
    able = [_seats(node) for node in here if node.takes_queue(queue.name) and queue.takes_node(node.name)]
    size = slots if slots is not None else round(sum(able) / len(able)) if able else 1
    limit = queue.policy.max_per_node
    return size if limit is None else min(size, limit)


def _seats(node: Node) -> int:
    return node.slots or (node.vitals.slots if node.vitals is not None else 0) or 1


def _count_workers(queue: Queue, wanted: int, size: int) -> int:
    """How many nodes have so many slots; of a queue that names its nodes no more than those."""
    if size < 1:
        return 0
    pinned = len(queue.policy.pin)
    return min(ceil(wanted / size), pinned) if pinned else ceil(wanted / size)
