"""Whoever waits for work is given it by the very commit that brings it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from ganger.core.errors import NodeGone
from ganger.core.ids import NodeId, QueueId
from ganger.core.node import Registration
from ganger.core.state import Status
from ganger.core.task import Claimed, Eager, Kind, NewTask
from ganger.engine.engine import Engine
from ganger.engine.store import Claim, Query
from ganger.engine.stores.sqlite import SqliteStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from tests.unit.databases.counter import Counted, until

COMMITTED = "scribe.committed_before_reply"


class Shop:
    """An engine on a file, with one queue and one node."""

    def __init__(self, engine: Engine, store: SqliteStore, queue: QueueId, node: NodeId, seen: Counted) -> None:
        self.engine, self.store, self.queue, self.node, self.seen = engine, store, queue, node, seen

    def ask(self, most: int = 1) -> Claim:
        return Claim(self.node, (self.queue,), most)

    async def submit(self, many: int = 1) -> list[int]:
        return list((await self.engine.submit([NewTask(self.queue, Kind.PAYLOAD)] * many)).ids)

    async def count(self, status: Status) -> int:
        return len((await self.engine.store.find(Query(queue=self.queue, statuses=(status,), most=1_000))).tasks)


@asynccontextmanager
async def opened(path: Path, name: str = "n") -> AsyncIterator[Shop]:
    clock, entropy, seen = SystemClock(), SystemEntropy(), Counted()
    store = await SqliteStore.open(path, clock, entropy, probe=seen)
    engine = Engine(store, clock, entropy)
    try:
        queue = await engine.queues.ensure("q", by="test")
        node = await engine.nodes.register(Registration(name, name, lease=600_000))
        yield Shop(engine, store, queue.id, node.id, seen)
    finally:
        await engine.close()
        await store.close()


class Hasty:
    """Begins whatever it hears of, and keeps an account."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[int]]] = []
        self.begun: set[int] = set()
        self.kept: list[int] = []

    def prepare(self, claimed: Sequence[Claimed]) -> None:
        self.heard.append(("prepare", [one.id for one in claimed]))

    def begin(self, claimed: Sequence[Claimed]) -> None:
        self.heard.append(("begin", [one.id for one in claimed]))
        self.begun.update(one.id for one in claimed)

    def forget(self) -> None:
        self.heard.append(("forget", []))

    def keep(self, claimed: Sequence[Claimed]) -> bool:
        is_begun = any(one.id in self.begun for one in claimed)
        self.kept += [one.id for one in claimed] if is_begun else []
        return is_begun


async def line_up(
    shop: Shop, timeout: float | None = None, most: int = 1, eager: Eager | None = None
) -> "asyncio.Task[list[int]]":
    async def wait() -> list[int]:
        return [one.id for one in await shop.engine.wait_claim(shop.ask(most), timeout, eager)]

    waiting = asyncio.create_task(wait())
    await until(lambda: shop.store.file.standing == 1 or waiting.done(), 60)
    return waiting


async def take_and_leave(shop: Shop, chance: Random, many: int, eager: Eager | None = None) -> list[int]:
    """Submit so many while somebody waits, who leaves at any instant. What was taken."""
    taken: list[int] = []
    for _ in range(many):
        waiting = await line_up(shop, timeout=chance.choice([None, 0.002]), eager=eager)
        submitting = asyncio.create_task(shop.submit())
        for _ in range(chance.randrange(200)):
            await asyncio.sleep(0)
        if chance.random() < 0.5:
            waiting.cancel()
        (got, _) = await asyncio.gather(waiting, submitting, return_exceptions=True)
        taken += got if isinstance(got, list) else []
    return taken


def test_a_task_is_claimed_by_the_commit_that_submits_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "a.db") as shop:
            for _ in range(5):
                waiting = await line_up(shop)
                commits = shop.seen.count(COMMITTED)
                ids = await shop.submit()
                assert await waiting == ids
                assert shop.seen.count(COMMITTED) == commits + 1

    asyncio.run(scenario())


def test_who_does_not_wait_any_more_is_given_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "a.db") as shop:
            assert await (await line_up(shop, timeout=0.01)) == []
            cancelled = await line_up(shop)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
            ids = await shop.submit(3)
            assert await shop.count(Status.QUEUED) == 3
            assert await (await line_up(shop, most=5)) == ids

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(5))
def test_waits_that_end_at_any_instant_lose_no_task(tmp_path: Path, seed: int) -> None:
    async def scenario() -> None:
        chance = Random(seed)
        async with opened(tmp_path / "a.db") as shop:
            taken = await take_and_leave(shop, chance, 40)
            await shop.engine.close()
            assert await shop.count(Status.CLAIMED) == len(taken) == len(set(taken))
            assert await shop.count(Status.QUEUED) == 40 - len(taken)

    asyncio.run(scenario())


def test_who_is_eager_hears_of_its_tasks_before_the_answer_comes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "a.db") as shop:
            for _ in range(5):
                hasty = Hasty()
                waiting = await line_up(shop, most=5, eager=hasty)
                ids = await shop.submit(2)
                assert await waiting == ids
                assert hasty.heard == [("prepare", ids), ("begin", ids)]
                assert not hasty.kept

    asyncio.run(scenario())


class Fickle(Hasty):
    """Leaves the line at the moment at which it begins."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.waiting: asyncio.Task[list[int]] | None = None

    def begin(self, claimed: Sequence[Claimed]) -> None:
        super().begin(claimed)
        assert self.waiting is not None
        self.loop.call_soon_threadsafe(self.waiting.cancel)


def test_what_was_begun_is_kept_by_one_who_has_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "a.db") as shop:
            fickle = Fickle()
            fickle.waiting = await line_up(shop, eager=fickle)
            ids = await shop.submit()
            with pytest.raises(asyncio.CancelledError):
                await fickle.waiting
            await shop.engine.close()
            assert fickle.kept == ids
            assert await shop.count(Status.CLAIMED) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(5))
def test_what_an_eager_one_has_begun_is_its_own_whenever_it_leaves(tmp_path: Path, seed: int) -> None:
    async def scenario() -> None:
        chance, hasty = Random(seed), Hasty()
        async with opened(tmp_path / "a.db") as shop:
            taken = await take_and_leave(shop, chance, 40, hasty)
            await shop.engine.close()
            held = taken + hasty.kept
            assert hasty.begun <= set(held)
            assert await shop.count(Status.CLAIMED) == len(held) == len(set(held))
            assert await shop.count(Status.QUEUED) == 40 - len(held)

    asyncio.run(scenario())


def test_a_node_that_has_left_is_told_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "a.db") as shop:
            waiting = await line_up(shop)
            await shop.engine.nodes.leave(shop.node, "n")
            await shop.submit()
            with pytest.raises(NodeGone):
                await waiting
            assert await shop.count(Status.QUEUED) == 1

    asyncio.run(scenario())


def test_one_in_another_process_is_woken_and_asks(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "a.db") as owner, opened(tmp_path / "a.db", "far") as far:
            waiting = await line_up(far)
            ids = await owner.submit()
            assert await waiting == ids

    asyncio.run(scenario())
