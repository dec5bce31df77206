"""Work on a PostgreSQL store while something happens to its server, and the books that must be right afterwards."""

import asyncio
from collections import Counter

from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.state import Move, Status, Verdict, move
from ganger.engine.store import Claim, Exchange, Submission
from ganger.engine.stores.postgres import PostgresStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock
from ganger.testing.contracts.scene import Scene, plain

LEASE = 600_000
SLOTS = 4
"""So many work at once for one node: what they ask for at one moment is gathered."""


class Bustle:
    """One store that submits and one that works, until all is done."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks
        self.had: Counter[int] = Counter()
        self.refused = 0
        self.submitted: list[TaskId] = []
        self.stores: list[PostgresStore] = []

    async def open(self, url: str) -> None:
        self.stores = [await PostgresStore.open(url, SystemClock(), SystemEntropy()) for _ in range(2)]

    async def close(self) -> None:
        for store in self.stores:
            await store.close()

    async def run(self) -> None:
        first = Scene(self.stores[0], FakeClock())
        queue, node = await first.queue(), await first.node(lease=LEASE)
        submitting = asyncio.ensure_future(self._submit(queue))
        await asyncio.gather(submitting, *(self._work(node, queue, submitting) for _ in range(SLOTS)))

    async def check(self) -> None:
        assert sorted(self.had) == sorted(self.submitted), "every acknowledged task was had, and none that nobody sent"
        assert self.refused == 0, "a reply that was lost is found out, not guessed"
        assert set(self.had.values()) == {1}
        (counts,), _ = await self.stores[1].counts()
        assert counts.by_status == {Status.SUCCEEDED: self.tasks}

    async def _submit(self, queue: QueueId) -> None:
        for _ in range(self.tasks):
            self.submitted += (await self.stores[0].submit(Submission((plain(queue),)))).ids

    async def _work(self, node: NodeId, queue: QueueId, submitting: "asyncio.Future[None]") -> None:
        moves: tuple[Move, ...] = ()
        while moves or not submitting.done() or sum(self.had.values()) < self.tasks:
            done = await self.stores[1].exchange(Exchange(moves, Claim(node, (queue,), 5)))
            self.refused += sum(verdict == Verdict.STALE for _, verdict in done.refused)
            self.had.update(one.id for one in done.claimed)
            moves = tuple(move(one.id, "succeed", one.fence) for one in done.claimed)
