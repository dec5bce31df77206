"""A worker that claims, renews, settles, and clings to leases that it lost; and its history as the checker reads it.

A process of its own, started with a path, a history file and its part as JSON. It goes on until its input ends.
"""

import asyncio
import random
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from ganger.core.errors import NodeGone, StoreUnavailable
from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.node import Registration
from ganger.core.state import Rule, Verdict, judge, move
from ganger.engine.store import Claim, Configure, Exchange, NodeChange, Note, Tend, Touch
from ganger.engine.stores.sqlite import SqliteStore, moving
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing import UNKNOWN, Entry, History, Operation, Outcome
from ganger.testing.lease_model import (
    Acquire,
    Answer,
    Expire,
    Granted,
    LeaseOp,
    LeaseResult,
    Release,
    Renew,
    Settle,
)
from tests.chaos.harness import loss_of
from tests.chaos.harness_worker import boot_time

MILLISECOND: Final = 1_000_000
LONG: Final = 600_000
NOBODY: Final = NodeId(0)


class Part(msgspec.Struct, frozen=True):
    """What a worker is told. `lives_by` is touch or liveness; with `ignores_fences` the store that it runs does so."""

    name: str
    seed: int
    tasks: list[int]
    lease: int
    lives_by: str
    ignores_fences: bool = False


@dataclass
class Grip:
    """A lease that the worker was given, and may believe in long after its end."""

    task: TaskId
    fence: Fence
    node: NodeId


@dataclass
class Holder:
    store: SqliteStore
    history: History
    part: Part
    rng: random.Random
    node: NodeId = NOBODY
    node_end: int = 0
    grips: list[Grip] = field(default_factory=list)

    async def register(self) -> None:
        lease = self.part.lease if self.part.lives_by == "liveness" else LONG
        name = f"{self.part.name}-{self.rng.randrange(1 << 30)}"
        called = boot_time()
        made = await self.store.configure(Configure(node=NodeChange(register=Registration(name, "t", lease=lease))))
        assert made.node is not None
        self.node, self.node_end = made.node.id, self._end(called)

    def _end(self, called: int) -> int:
        """The first instant at which a lease that was asked for then can end; the store counts whole milliseconds."""
        return (called // MILLISECOND + self.part.lease) * MILLISECOND

    async def act(self) -> None:
        choice = self.rng.random()
        if choice < 0.25 or not self.grips:
            await self.claim(TaskId(self.rng.choice(self.part.tasks)))
        elif choice < 0.6:
            await self.renew(self._choose())
        elif choice < 0.75:
            await self.move(self._choose(), "release")
        elif choice < 0.765:
            await self.move(self._choose(), "succeed")
        else:
            await self.tend()

    def _choose(self) -> Grip:
        """Mostly the newest lease; now and then one that is long gone."""
        return self.grips[-1] if self.rng.random() < 0.6 else self.rng.choice(self.grips)

    async def claim(self, task: TaskId) -> None:
        called = boot_time()
        end = self._end(called) if self.part.lives_by == "touch" else self.node_end
        with self.history.record("acquire", task, args=end) as call:
            try:
                done = await self.store.exchange(Exchange(claim=Claim(self.node, ids=(task,), start=True)))
            except NodeGone:
                call.fail()
                await self.register()
                return
            if not done.claimed:
                call.fail()
                return
            self.grips = [*self.grips[-6:], Grip(task, done.claimed[0].fence, self.node)]
            call.ok(done.claimed[0].fence)

    async def renew(self, grip: Grip) -> None:
        if self.part.lives_by == "liveness":
            await self.beat()
            return
        with self.history.record("renew", grip.task, args=[grip.fence, self._end(boot_time())]) as call:
            refused = await self.store.write((Note(grip.task, grip.fence, touch=Touch()),))
            call.fail() if refused else call.ok()

    async def beat(self) -> None:
        """One beat renews every lease of this registration that was not given up; each is told in its own history."""
        end = self._end(boot_time())
        own = [grip for grip in self.grips if grip.node == self.node]
        calls = [self.history.called("renew", grip.task, args=[grip.fence, end]) for grip in own]
        try:
            await self.store.configure(Configure(node=NodeChange(id=self.node, token="t", beat=True)))
            self.node_end = end
            for call in calls:
                call.ok()
        except NodeGone:
            for call in calls:
                call.fail()
            await self.register()
        for call in calls:
            self.history.returned(call)

    async def move(self, grip: Grip, rule: str) -> None:
        with self.history.record("settle" if rule == "succeed" else rule, grip.task, args=[grip.fence, 0]) as call:
            done = await self.store.exchange(Exchange((move(grip.task, rule, grip.fence),)))
            if done.refused:
                assert done.refused == [(0, Verdict.STALE)]
                call.fail()
            else:
                call.ok()
                self._give_up(grip)

    def _give_up(self, grip: Grip) -> None:
        # Kept in mind to be tried again, but no beat speaks for it any more.
        self.grips.remove(grip)
        self.grips.insert(0, Grip(grip.task, grip.fence, NOBODY))

    async def tend(self) -> None:
        tended = await self.store.tend(Tend(lapse=True))
        await self.store.exchange(Exchange(tuple(loss_of(lapsed) for lapsed in tended.lapsed)))


def ignore_fences() -> None:
    """The planted bug: whoever names any fence may move the task while somebody holds it."""

    def lenient(rule: Rule, status: int, fence: int, asked: int, lease_valid: bool) -> Verdict:
        return judge(rule, status, fence, fence if rule.by_holder else asked, lease_valid)

    moving.judge = lenient  # type: ignore[attr-defined]


def wait_for_end(over: threading.Event) -> None:
    sys.stdin.buffer.read()
    over.set()


async def work(path: Path, history: Path, part: Part) -> None:
    if part.ignores_fences:
        ignore_fences()
    over = threading.Event()
    threading.Thread(target=wait_for_end, args=(over,), daemon=True).start()
    store = await SqliteStore.open(path, SystemClock(), SystemEntropy())
    holder = Holder(store, History(history, boot_time), part, random.Random(part.seed))
    await holder.register()
    while not over.is_set():
        try:
            await holder.act()
        except StoreUnavailable:
            await holder.register()  # unknown, and the history says so
        await asyncio.sleep(holder.rng.choice((0.0, 0.0, 0.001, 0.005, part.lease / 4_000)))
    await store.close()


def lease_histories(entries: Iterable[Entry]) -> dict[int, list[Operation[LeaseOp, LeaseResult]]]:
    """One history for each task. The end of a lease is nobody's call: it may happen at any time after the lease's."""
    by_task: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_task[int(entry.keys[0])].append(entry)
    return {task: [*map(_operation, _telling(mine)), *_ends(mine)] for task, mine in by_task.items()}


def _telling(entries: Iterable[Entry]) -> Iterable[Entry]:
    # A claim that got nothing says little: a lease that has ended keeps others out until upkeep has taken it back.
    return (entry for entry in entries if entry.op != "acquire" or entry.outcome is not Outcome.FAIL)


def _operation(entry: Entry) -> Operation[LeaseOp, LeaseResult]:
    return Operation(_op(entry), entry.called, entry.returned, _result(entry))


def _op(entry: Entry) -> LeaseOp:
    match entry.op:
        case "acquire":
            return Acquire(entry.client)
        case "renew":
            return Renew(entry.args[0])
        case "release":
            return Release(entry.args[0])
        case _:
            return Settle(entry.args[0])


def _result(entry: Entry) -> Any:
    if entry.outcome is Outcome.UNKNOWN:
        return UNKNOWN
    if entry.outcome is Outcome.FAIL:
        return Answer.REFUSED
    return Granted(entry.result) if entry.op == "acquire" else Answer.ACCEPTED


def _ends(entries: list[Entry]) -> list[Operation[LeaseOp, LeaseResult]]:
    """An end for each grant that was not given back for certain, called when its last renewal may run out."""
    ends = []
    for grant in entries:
        if grant.op != "acquire" or grant.outcome is Outcome.FAIL:
            continue
        mine = [entry for entry in entries if _is_under(entry, grant) and entry.outcome is Outcome.OK]
        if not any(entry.op in ("release", "settle") for entry in mine):
            ends.append(max([grant.args, *(entry.args[1] for entry in mine)]))
    return [Operation(Expire(), end) for end in ends]


def _is_under(entry: Entry, grant: Entry) -> bool:
    return entry.op != "acquire" and grant.outcome is Outcome.OK and entry.args[0] == grant.result


def find_late(entries: Iterable[Entry], lease: int) -> list[Entry]:
    """Writes that were accepted though the lease had ended for certain before they were called (touched leases)."""
    known = [entry for entry in entries if entry.outcome is not Outcome.FAIL]
    renewed: dict[tuple[int, int], list[int | None]] = defaultdict(list)
    for entry in known:
        if entry.op in ("acquire", "renew"):
            fence = entry.result if entry.op == "acquire" else entry.args[0]
            renewed[int(entry.keys[0]), fence].append(entry.returned)
    return [entry for entry in known if entry.op != "acquire" and _is_late(entry, renewed, lease)]


def _is_late(entry: Entry, renewed: dict[tuple[int, int], list[int | None]], lease: int) -> bool:
    before = [at for at in renewed[int(entry.keys[0]), entry.args[0]] if at is None or at != entry.returned]
    if None in before or not before or entry.returned is None:
        return False
    last = max(at for at in before if at is not None and at <= entry.returned)
    return entry.called > last + lease * MILLISECOND


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), Path(sys.argv[2]), msgspec.json.decode(sys.argv[3], type=Part)))
