"""A process that submits, runs, beats and tends on a shared file, all at once, until it is stopped or killed."""

import asyncio
import itertools
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ganger.core.ids import QueueId
from ganger.core.node import Node
from ganger.core.task import Claimed, Kind, NewTask
from ganger.engine.store import QUEUE_TOPIC, Claim, Configure, Exchange, NodeChange, Submission
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing import History
from tests.chaos.books import tend_once
from tests.system.harness import Line
from tests.system.harness_store import open_store, register, succeed

LEASE: Final = 5_000
BEAT: Final = 0.5
MOST: Final = 4
PRODUCERS: Final = 2
LETTERS: Final = 0.5
"""This part of the submissions is acknowledged when it lies in the bag of its process."""


@dataclass
class Bustle:
    """One process at work. Each claim is noted as a run before it is settled; each settle names its fences."""

    who: str
    queue: QueueId
    store: SqliteStore
    node: Node
    history: History
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def produce(self) -> None:
        rng = random.Random(self.who)
        while not self.stopping.is_set():
            keys = [f"{self.who}-{next(self.numbers)}" for _ in range(rng.randint(1, 3))]
            tasks = tuple(NewTask(self.queue, Kind.PAYLOAD, key.encode(), key=key) for key in keys)
            with self.history.record("submit", *keys) as call:
                await self._submit(Submission(tasks), by_letter=rng.random() < LETTERS)
                call.ok()

    async def _submit(self, tasks: Submission, *, by_letter: bool) -> None:
        if by_letter:
            await asyncio.to_thread(self.store.post_now, tasks)
        else:
            await self.store.submit(tasks)

    async def consume(self) -> None:
        claim = Claim(self.node.id, (self.queue,), most=MOST, start=True)
        claimed: list[Claimed] = []
        while claimed or not self.stopping.is_set():
            self.ready.clear()
            claimed = await self._settle(claimed, None if self.stopping.is_set() else claim)
            self._note(claimed)
            if not claimed:
                await self._wait()

    async def _settle(self, claimed: list[Claimed], claim: Claim | None) -> list[Claimed]:
        fences = [one.fence for one in claimed]
        with self.history.record("settle", *_keys(claimed), args=fences) as call:
            done = await self.store.exchange(Exchange(succeed(claimed), claim))
            call.ok([index for index, _ in done.refused])
        return done.claimed

    def _note(self, claimed: list[Claimed]) -> None:
        if claimed:
            with self.history.record("run", *_keys(claimed), args=[one.fence for one in claimed]) as call:
                call.ok()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(BEAT):
                await self.ready.wait()
        except TimeoutError:
            return  # a wake-up may be lost with the owner: look for yourself

    async def beat(self) -> None:
        change = NodeChange(self.node.id, self.node.name, beat=True)
        while not self.stopping.is_set():
            await self.store.configure(Configure(node=change))
            await tend_once(self.store)
            await asyncio.sleep(BEAT / 2)

    async def work(self) -> None:
        self.store.listen([QUEUE_TOPIC.format(self.queue)], lambda topic: self.ready.set())
        await asyncio.gather(self.consume(), self.beat(), *(self.produce() for _ in range(PRODUCERS)))


def _keys(claimed: list[Claimed]) -> list[str]:
    return [(one.spec or b"").decode() for one in claimed]


async def bustle(line: Line, database: Path, who: str, queue: QueueId) -> None:
    """The role: at work until the test says a word."""
    store = await open_store(database)
    history = History(database.parent / f"{who}.history", time.monotonic_ns)
    worker = Bustle(who, queue, store, await register(store, who, LEASE), history)
    work = asyncio.create_task(worker.work())
    word = asyncio.create_task(line.hear())
    await asyncio.wait([work, word], return_when=asyncio.FIRST_COMPLETED)
    worker.stopping.set()
    await work
    history.close()
    await store.close()
    line.say("stopped")
