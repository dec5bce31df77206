"""The hot statements of the PostgreSQL store walk the index that was made for them, whatever the tables hold."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ganger.core.ids import QueueId
from ganger.core.task import NewTask
from ganger.engine.store import Configure, QueueChange, Submission
from ganger.engine.stores.postgres import PostgresStore
from ganger.engine.stores.postgres.queries import Q
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

CASES: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("claim_heads", ([1], [1], 100, 0, 1, 1, 1, 1), "task_ready"),
    ("ready_heads", ([1], [1], [100]), "task_ready"),
    ("promote", (1, [1], 100), "task_due"),
    ("next_due", ([1],), "task_due"),
    ("rows_read", ([1, 2],), "task_pkey"),
    ("moves_succeed", (1, 1, [1], [1], [0], [0]), "task_pkey"),
    ("leased_by_node", (1,), "task_leased"),
    ("lapsed_gone", (100,), "task_leased"),
    ("lapsed_touched", (1, 1, 100), "task_until"),
    ("node_kills", (1,), "task_kill"),
    ("follow_next", (100,), "task_pkey"),
    ("keyed_parked", (1, "k", 3), "task_keyed_parked"),
    ("queue_ids", (1, 100), "task_queue"),
)


@pytest.mark.parametrize("filled", [False, True], ids=["empty", "filled"])
def test_each_walks_its_index(postgres_url: Callable[[], str], filled: bool) -> None:
    plans = asyncio.run(_explain(postgres_url(), filled))
    assert {name: index for name, _, index in CASES if index not in plans[name]} == {}
    assert [
        name for name, plan in plans.items() if "Seq Scan on task" in plan or "Sort Key: task.priority" in plan
    ] == []


async def _explain(url: str, filled: bool) -> dict[str, str]:
    store = await PostgresStore.open(url, SystemClock(), SystemEntropy())
    try:
        await store.configure(Configure(queue=QueueChange(name="q")))
        if filled:
            await store.submit(Submission((NewTask(QueueId(1), "command"),) * 3_000))
        return {name: await store._read(_asking(name, values)) for name, values, _ in CASES}
    finally:
        await store.close()


def _asking(name: str, values: tuple[Any, ...]) -> Callable[[Any], Any]:
    async def ask(connection: Any) -> str:
        return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {getattr(Q, name)}", *values))

    return ask
