"""What must be done again and again: take lost leases back, promote what is due, release what was left, prune.

Each chore is a step that does a bounded piece of work and may be done by anybody at any time: it repairs what a crash
left, and doing it twice changes nothing. Around the step is a loop that rests until the store says when the next one is
worth while, or until a wake-up. Wake-ups come with every commit, so a chore that was just done keeps quiet for a while
first; when nothing happens, no chore asks the store anything. Where several could do the work, a leader gate says who.

*A server that was stopped must not expire its nodes.* If this process, or the whole machine, stands still for a minute,
no beat could arrive, and the first thing that it would do on waking up is to declare every node lost. The reaper knows
when it wanted to wake up. If that was more than a second ago by the boot clock, it has itself been away, so it first
gives everybody the time of one beat (a third of the longest lease of the nodes that are here, at most 30 s) and only
then looks. A node that is really gone is found that much later. A new leader, whose plan is old, does the same.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Final, NamedTuple, Protocol

from ganger.core.clock import Clock, Wall
from ganger.core.outcome import after_loss
from ganger.core.state import Move
from ganger.engine.bell import Bell
from ganger.engine.store import EVENTS_TOPIC, NODES_TOPIC, QUEUES_TOPIC, Exchange, Lapsed, Store, Tend
from ganger.engine.unheld import find_unheld
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

AWAY: Final = 1_000
LONGEST_GRACE: Final = 30_000
SHORTEST_NAP: Final = 5
LONGEST_NAP: Final = 30_000
"""A wall clock may jump: no rest that waits for one is longer without a look at it. It asks the store nothing."""

ASK_GATE: Final = 5.0
STRANGERS: Final = 1_000
"""Milliseconds between two looks at what strangers did."""


class LeaderGate(Protocol):
    async def leads(self) -> bool:
        """May this party do upkeep now?"""
        ...


class AlwaysLeads:
    """Nobody else is there."""

    async def leads(self) -> bool:
        return True


ALONE: Final[LeaderGate] = AlwaysLeads()


class Stepped(NamedTuple):
    """What a step did. `more`: go on at once. `next_at`: nothing to do before then, by the chore's own clock."""

    done: int
    more: bool = False
    next_at: int | None = None


class Chore(Service, ABC):
    """A step with a rhythm. `quiet` is how many milliseconds at least lie between two steps that a wake-up causes."""

    topics: tuple[str, ...] = (EVENTS_TOPIC,)
    quiet = 500

    def __init__(self, store: Store, clock: Clock, *, gate: LeaderGate = ALONE, telemetry: Telemetry = SILENT) -> None:
        super().__init__(type(self).__name__.lower(), telemetry=telemetry)
        self._store = store
        self._clock = clock
        self._gate = gate
        self._tell = telemetry
        self._woken = asyncio.Event()

    @abstractmethod
    async def step(self) -> Stepped:
        """Do one bounded piece of the work. Idempotent."""

    def time(self) -> int:
        """The clock that `next_at` is of."""
        return self._clock.wall()

    async def ready(self, planned: int | None) -> None:
        """Called before each step with the time that it was planned for."""

    async def drain(self) -> None:
        self._woken.set()
        await super().drain()

    async def run(self) -> None:
        planned: int | None = None
        with Bell(self._store, self.topics, self._woken) as bell:
            while not self.draining.is_set():
                bell.rung.clear()
                if not await self._gate.leads():
                    await bell.wait(ASK_GATE)
                    continue
                await self.ready(planned)
                began = self._clock.now()
                stepped = await self.step()
                planned = stepped.next_at
                if stepped.more:
                    await asyncio.sleep(0)
                else:
                    await self._rest(bell, planned, began)

    async def _rest(self, bell: Bell, planned: int | None, began: int) -> None:
        while not await bell.wait(self._nap(planned)):
            if planned is not None and self.time() >= planned:
                return
        hush = self.quiet - (self._clock.now() - began)
        if hush > 0 and not self.draining.is_set():
            await self._pause(min(hush, self._left(planned, hush)))

    def _nap(self, planned: int | None) -> float | None:
        return None if planned is None else min(max(self._left(planned, 0), SHORTEST_NAP), LONGEST_NAP) / 1000

    def _left(self, planned: int | None, otherwise: int) -> int:
        return otherwise if planned is None else max(0, planned - self.time())

    async def _pause(self, milliseconds: int) -> None:
        try:
            async with asyncio.timeout(milliseconds / 1000):
                await self.draining.wait()
        except TimeoutError:
            return


class Reaper(Chore):
    """Takes back leases that have ended."""

    topics = (EVENTS_TOPIC, NODES_TOPIC)

    def time(self) -> int:
        return self._clock.now()

    async def ready(self, planned: int | None) -> None:
        late = 0 if planned is None else self.time() - planned
        if late > AWAY:
            grace = await self._beat()
            self._tell.event("reaper_was_away", milliseconds=late, grace=grace)
            await self._pause(grace)

    async def _beat(self) -> int:
        nodes = (await self._store.directory()).nodes
        return min(max((node.lease for node in nodes if node.here), default=0) // 3, LONGEST_GRACE)

    async def step(self) -> Stepped:
        """Decide about each lease that has ended, and take it back. Uses: tend, exchange."""
        tended = await self._store.tend(Tend(lapse=True))
        if not tended.lapsed:
            return Stepped(0, tended.more, tended.next_at)
        refused = (await self._store.exchange(Exchange(tuple(map(_take_back, tended.lapsed))))).refused
        taken = len(tended.lapsed) - len(refused)
        self._tell.event("leases_taken_back", taken=taken, refused=len(refused))
        return Stepped(taken, tended.more, tended.next_at)


def _take_back(lapsed: Lapsed) -> Move:
    return after_loss(
        lapsed.task, lapsed.fence, started=lapsed.started, left=lapsed.left, crashes=lapsed.crashes,
        retry=lapsed.retry, on_lost=lapsed.on_lost, kill=lapsed.kill, holder=lapsed.holder,
    )  # fmt: skip


class Promoter(Chore):
    """Makes due tasks ready. A claim does the same for its own queues: this is for those that nobody claims from."""

    topics = (EVENTS_TOPIC, QUEUES_TOPIC)

    async def step(self) -> Stepped:
        """Uses: tend."""
        tended = await self._store.tend(Tend(promote=True))
        return Stepped(tended.done, tended.more, tended.next_at)


class Releaser(Chore):
    """Follows edges and groups that were too many for one step, and what strangers did where they write too."""

    quiet = 100

    async def step(self) -> Stepped:
        """Uses: tend."""
        tended = await self._store.tend(Tend(release=True))
        # Strangers wake nobody.
        look_again = self.time() + STRANGERS if self._store.capabilities.foreign_writers else None
        return Stepped(tended.done, tended.more, look_again)


class Checker(Chore):
    """Looks whether live nodes have in hand what they lease, and tells of each lease that is not, once."""

    quiet = 5_000

    def __init__(self, store: Store, clock: Clock, *, gate: LeaderGate = ALONE, telemetry: Telemetry = SILENT) -> None:
        super().__init__(store, clock, gate=gate, telemetry=telemetry)
        self._told: frozenset[tuple[int, int]] = frozenset()

    async def step(self) -> Stepped:
        """Uses: directory, find."""
        found = {(one.task.id, one.task.fence): one for one in await find_unheld(self._store)}
        for key in found.keys() - self._told:
            task, node = found[key]
            self._tell.event("lease_not_in_hand", task=task.id, fence=task.fence, node=node.name)
        self._told = frozenset(found)
        return Stepped(0, False, self._clock.wall() + self.quiet if found else None)


class Retention(NamedTuple):
    """How long final tasks stay, in milliseconds, and how many bytes of output; None keeps everything.

    `strangers`: the same of tasks that others made in a store that they write too.
    """

    final: int | None = 7 * 24 * 60 * 60 * 1000
    output: int | None = 1 << 30
    strangers: int | None = None
    every: int = 60 * 60 * 1000


USUAL: Final = Retention()


class Pruner(Chore):
    """Removes what is old."""

    quiet = 60_000

    def __init__(
        self,
        store: Store,
        clock: Clock,
        retention: Retention = USUAL,
        *,
        gate: LeaderGate = ALONE,
        telemetry: Telemetry = SILENT,
    ) -> None:
        super().__init__(store, clock, gate=gate, telemetry=telemetry)
        self._retention = retention

    async def step(self) -> Stepped:
        """Uses: tend."""
        done, more = 0, False
        for tend in self._tends():
            tended = await self._store.tend(tend)
            done, more = done + tended.done, more or tended.more
        return Stepped(done, more, self._clock.wall() + self._retention.every)

    def _tends(self) -> list[Tend]:
        tends = []
        if self._retention.final is not None:
            tends.append(Tend(prune_before=Wall(self._clock.wall() - self._retention.final)))
        if self._retention.strangers is not None and self._store.capabilities.foreign_writers:
            before = Wall(self._clock.wall() - self._retention.strangers)
            tends.append(Tend(prune_before=before, strangers=True))
        if self._retention.output is not None:
            tends.append(Tend(trim_output=self._retention.output))
        return tends


def keep_up(
    store: Store,
    clock: Clock,
    retention: Retention = USUAL,
    *,
    gate: LeaderGate = ALONE,
    telemetry: Telemetry = SILENT,
) -> Service:
    """All chores as one service."""
    chores = [chore(store, clock, gate=gate, telemetry=telemetry) for chore in (Reaper, Promoter, Releaser, Checker)]
    pruner = Pruner(store, clock, retention, gate=gate, telemetry=telemetry)
    return Service("upkeep", children=[*chores, pruner], telemetry=telemetry)
