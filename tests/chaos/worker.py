"""A process that writes to a store by one path, keeps its own history, and dies where it is told to."""

import asyncio
import itertools
import os
import signal
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from ganger.core.errors import StoreBroken, StoreUnavailable
from ganger.databases.sqlite import Limits, Rank
from ganger.databases.sqlite.checksums import find_layer
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing import Fault, FaultVfs, History
from tests.chaos.paths import WRITE_PATHS, Hand, Seeded
from tests.system.harness import Line
from tests.system.harness_store import open_store

AFTERWARDS: Final = 5
"""A survivor does so many more operations before it stops."""


@dataclass(frozen=True)
class Orders:
    """What the process is to do. `die_at` and `halt_at` name a point; `armed` counts from the very start."""

    database: Path
    seeded: Seeded
    who: str
    path: str
    width: int = 1
    rank: Rank = Rank.CLIENT
    die_at: str | None = None
    halt_at: str | None = None
    times: int = 1
    armed: bool = False
    limits: Limits | None = None
    fault: Fault | None = None

    @property
    def history(self) -> Path:
        return self.database.parent / f"{self.who}.history"


@dataclass
class Trap:
    """A probe: when it is armed and comes by its point for the nth time, the process dies, or halts and says so."""

    orders: Orders
    line: Line
    armed: bool
    left: int

    def __call__(self, name: str) -> None:
        if not self.armed or name not in (self.orders.die_at, self.orders.halt_at):
            return
        self.left -= 1
        if self.left:
            return
        if name == self.orders.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.line.say("halted")
        threading.Event().wait()


@dataclass
class Worker:
    line: Line
    orders: Orders
    store: SqliteStore
    trap: Trap
    vfs: FaultVfs | None
    hands: list[Hand] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    work: asyncio.Task[None] | None = None
    done: int = 0
    unknown: int = 0

    async def prepare(self) -> None:
        orders = self.orders
        for number in range(orders.width):
            self.hands.append(await Hand.make(self.store, orders.seeded, f"{orders.who}.{number}"))
        self.line.say("prepared")

    async def arm(self) -> None:
        self.trap.armed = True
        if self.vfs is not None and self.orders.fault is not None:
            self.vfs.arm(self.orders.fault)
        self.line.say("armed")

    async def begin(self) -> None:
        self.work = asyncio.create_task(self._work())
        self.line.say("begun")

    async def owns(self) -> None:
        self.line.say(self.store.file.owns)

    async def stop(self) -> None:
        """Go on for a few operations, then tell what was done and what is still held."""
        assert self.work is not None
        self.stopping.set()
        await self.work
        held = {hand.node: sorted(one.id for one in hand.claimed) for hand in self.hands}
        self.line.say(self.done, self.unknown, held)

    async def _work(self) -> None:
        history = History(self.orders.history, time.monotonic_ns)
        numbers = itertools.count(1)
        await asyncio.gather(*(self._toil(hand, history, numbers) for hand in self.hands))
        history.close()

    async def _toil(self, hand: Hand, history: History, numbers: "itertools.count[int]") -> None:
        path, left = WRITE_PATHS[self.orders.path], AFTERWARDS
        while left:
            left -= self.stopping.is_set()
            op = f"{self.orders.who}-{next(numbers)}"
            try:
                with history.record(path.name, op) as call:
                    call.ok(await path.do(hand, op))
                self.done += 1
            except (StoreBroken, StoreUnavailable):
                self.unknown += 1
                await hand.look()


async def work(line: Line, orders: Orders) -> None:
    """The role: open the file, and obey, one word at a time."""
    trap = Trap(orders, line, orders.armed, orders.times)
    # Above the layer of checksums: others have made the file with them.
    vfs = FaultVfs(f"fault-{os.getpid()}", base=find_layer() or "") if orders.fault is not None else None
    name = None if vfs is None else vfs.name
    limits = replace(orders.limits or Limits(), letters_after=0)
    store = await open_store(orders.database, probe=trap, rank=orders.rank, vfs=name, limits=limits)
    worker = Worker(line, orders, store, trap, vfs)
    line.say("open")
    while (word := (await line.hear())[0]) != "close":
        await getattr(worker, word)()
    await store.close()
    line.say("closed")
