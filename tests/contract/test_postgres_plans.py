"""The hot statements of the PostgreSQL store walk the index that was made for them, whatever the tables hold."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ganger.core.graph import Edge
from ganger.core.ids import QueueId, TaskId
from ganger.core.task import NewTask
from ganger.engine.store import Configure, QueueChange, Submission
from ganger.engine.stores.postgres import PostgresStore
from ganger.engine.stores.postgres.queries import Q
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

CASES: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("claim_heads", ([1], [1], 100, 0, 1, 1, 1, 1, 1), "ready_pkey"),
    ("ready_heads", ([1], [1], [100]), "ready_pkey"),
    ("promote", (1, [1], 100), "task_due"),
    ("next_due", ([1],), "task_due"),
    ("claim_take", (0, 1, 1, 1, 1, [1], [1]), "task_pkey"),
    ("places_leave", ([1, 2],), "ready_pkey"),
    ("rows_read", ([1, 2],), "task_pkey"),
    ("moves_succeed", (1, 1, [1], [1], [0], [0], [1]), "task_pkey"),
    ("leased_by_node", (1,), "lease_pkey"),
    ("lapsed_gone", (100,), "lease_pkey"),
    ("lapsed_touched", (1, 1, 100), "task_until"),
    ("node_kills", (1,), "task_kill"),
    ("follow_next", (100,), "task_pkey"),
    ("keyed_parked", (1, "k", 3), "task_keyed_parked"),
    ("queue_ids", (1, 100), "task_queue"),
    ("members_done", ([1], 1, 100), "task_group"),
    ("edges_from", (1, -1, 100), "edge_pkey"),
    ("edges_from_all", ([1, 2],), "edge_pkey"),
    ("children_of", ([1],), "edge_pkey"),
    ("edges_to", (1,), "edge_child"),
    ("reaches", (1, 2), "edge_pkey"),
    ("receipt_events", ("nobody",), "event_pkey"),
    ("heads_recall", (1, [1], [1], 1), "task_pkey"),
    (
        "exchange",
        (
            1, 1, None, None, 1, 1, None, None, None, [], [], [], [], [], [], [], [], [], [], [], [], [], [], [],
            [1], [1], [1], 100, 0, b"\x00", "claimed", 1, 1, "nobody", 1,
        ),
        "task_due",
    ),
)  # fmt: skip
FUNCTIONS = ("claim_heads", "moves_succeed", "exchange")
"""Their statements are in functions of the schema, whose plans the server tells when it runs them."""
TELLING = """
LOAD 'auto_explain';
SET LOCAL auto_explain.log_min_duration = 0;
SET LOCAL auto_explain.log_nested_statements = on;
SET LOCAL auto_explain.log_level = 'notice';
"""


WIDE = ("task_queue", "task_group", "edge_child")
TABLES = ("task", "ready", "lease", "edge")


@pytest.mark.parametrize("state", ["new", "filled", "emptied"])
def test_each_walks_its_index(postgres_url: Callable[[], str], state: str) -> None:
    """A table that was emptied and counted looks to the planner as if it would stay small for ever."""
    plans = asyncio.run(_explain(postgres_url(), state))
    wanted = {name: index for name, _, index in CASES}
    assert {name: index for name, index in wanted.items() if index not in plans[name]} == {}
    assert [
        name for name, plan in plans.items() if "Seq Scan on task" in plan or "Sort Key: task.priority" in plan
    ] == []
    # With another index than its own an id is found by looking at all of them.
    strayed = {name: index for index in WIDE for name, plan in plans.items() if index in plan and wanted[name] != index}
    assert strayed == {}


async def _explain(url: str, state: str) -> dict[str, str]:
    store = await PostgresStore.open(url, SystemClock(), SystemEntropy())
    try:
        await store.configure(Configure(queue=QueueChange(name="q")))
        if state != "new":
            await store.submit(Submission((NewTask(QueueId(1), "command"),) * 3_000))
            await store.submit(Submission(tuple(_fan(3_000))))
        if state == "emptied":
            await store._read(_empty)
        return {
            name: await store._read((_running if name in FUNCTIONS else _asking)(name, values))
            for name, values, _ in CASES
        }
    finally:
        await store.close()


def _fan(n: int) -> Iterator[NewTask]:
    """A task, and others that wait for it."""
    yield NewTask(QueueId(1), "command")
    yield from (NewTask(QueueId(1), "command", parents=(Edge(TaskId(-1)),)) for _ in range(n))


async def _empty(connection: Any) -> None:
    for table in TABLES:
        await connection.execute(f"DELETE FROM {table}")
        await connection.execute(f"VACUUM ANALYZE {table}")


def _asking(name: str, values: tuple[Any, ...]) -> Callable[[Any], Any]:
    async def ask(connection: Any) -> str:
        return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {getattr(Q, name)}", *values))

    return ask


def _running(name: str, values: tuple[Any, ...]) -> Callable[[Any], Any]:
    async def run(connection: Any) -> str:
        told: list[str] = []

        def hear(_connection: Any, message: Any) -> None:
            told.append(message.message)

        connection.add_log_listener(hear)
        transaction = connection.transaction()
        await transaction.start()
        try:
            await connection.execute(TELLING)
            await connection.fetch(getattr(Q, name), *values)
        finally:
            await transaction.rollback()
            connection.remove_log_listener(hear)
        return "\n".join(told)

    return run
