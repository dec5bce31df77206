"""Units that share a transaction: one that fails takes back its own part of the owner's books, and no more."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from ganger.core.errors import DuplicateKey, GangerError, UnknownGroup, UnknownParent
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, QueueId
from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.task import NewTask
from ganger.engine.store import Claim, Configure, Exchange, NodeChange, QueueChange, Submission
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing.clock import FakeClock, SeededEntropy
from tests.unit.engine.stores.owner import payload

Scenario = Callable[[SqliteStore, QueueId, NodeId], Awaitable[None]]
FAILING: list[tuple[dict[str, Any], type[GangerError]]] = [
    ({"key": "taken"}, DuplicateKey),
    ({"parents": (Edge(10**9),)}, UnknownParent),
    ({"group": 10**9, "limit_key": "k"}, UnknownGroup),
]


def play(path: Path, scenario: Scenario, **policy: Any) -> None:
    asyncio.run(_play(path, scenario, Policy(**policy)))


async def _play(path: Path, scenario: Scenario, policy: Policy) -> None:
    store = await SqliteStore.open(path, FakeClock(), SeededEntropy())
    try:
        made = await store.configure(Configure(queue=QueueChange(name="q", policy=policy)))
        joined = await store.configure(Configure(node=NodeChange(register=Registration("n", "t"))))
        assert made.queue is not None
        assert joined.node is not None
        await store.submit(Submission((payload(made.queue.id, key="taken"),)))
        await scenario(store, made.queue.id, joined.node.id)
        await _check_counts(store)
    finally:
        await store.close()


async def _check_counts(store: SqliteStore) -> None:
    (counts,), _ = await store.counts()
    real = await store.file.read(_count)
    assert counts.by_status == real
    assert counts.total == sum(real.values())


def _count(connection: apsw.Connection) -> dict[int, int]:
    return dict(Counter(row[0] for row in connection.execute("SELECT status FROM task")))


async def together(*calls: Awaitable[Any]) -> list[Any]:
    return await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.parametrize(("more", "error"), FAILING, ids=lambda value: getattr(value, "__name__", None))
def test_a_failing_submit_among_others_counts_nothing(
    tmp_path: Path, more: dict[str, Any], error: type[GangerError]
) -> None:
    async def scenario(store: SqliteStore, queue: QueueId, node: NodeId) -> None:
        good, bad = Submission((payload(queue),)), Submission((payload(queue), payload(queue, **more)))
        said = await together(*(store.submit(bad if index % 3 == 0 else good) for index in range(60)))
        assert [type(one) is error for one in said] == [index % 3 == 0 for index in range(60)]
        exchanged = await store.exchange(Exchange(claim=Claim(node, (queue,), 1_000)))
        assert len(exchanged.claimed) == 41

    play(tmp_path / "tasks.db", scenario)


def test_a_failing_submit_fills_no_batch(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore, queue: QueueId, node: NodeId) -> None:
        good, bad = Submission((payload(queue),)), Submission((payload(queue), payload(queue, key="taken")))
        unknown = Submission((payload(queue), payload(queue, group=10**9)))
        await together(*(store.submit(one) for one in (good, bad, unknown) * 10))
        batches = await store.file.read(lambda connection: list(connection.execute("SELECT batch FROM task")))
        assert sorted(Counter(row[0] for row in batches).values()) == [3, 4, 4]

    play(tmp_path / "tasks.db", scenario, batch_size=4)


def test_a_failing_submit_of_a_new_kind_leaves_no_lane(tmp_path: Path) -> None:
    async def scenario(store: SqliteStore, queue: QueueId, node: NodeId) -> None:
        bad = [Submission((NewTask(queue, f"plugin:{index}", group=10**9),)) for index in range(10)]
        good = [Submission((NewTask(queue, f"plugin:{index}"),)) for index in range(0, 10, 2)]
        await together(*(store.submit(one) for one in [*bad, *good, *bad]))
        exchanged = await store.exchange(Exchange(claim=Claim(node, (queue,), 100)))
        assert len({one.kind for one in exchanged.claimed}) == 6

    play(tmp_path / "tasks.db", scenario)


def test_the_next_owner_finds_the_same_counts(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"

    async def scenario(store: SqliteStore, queue: QueueId, node: NodeId) -> None:
        await together(*(store.submit(Submission((payload(queue),) * 5)) for _ in range(20)))
        await store.exchange(Exchange(claim=Claim(node, (queue,), 30)))

    async def reopen() -> None:
        store = await SqliteStore.open(path, FakeClock(), SeededEntropy())
        await _check_counts(store)
        await store.close()

    play(path, scenario)
    asyncio.run(reopen())
