"""The table of tasks can be cut into partitions by queue: rows of two that lie at the same place are not mixed up."""

from collections.abc import Callable
from typing import Any, Final

import pytest

from ganger.core.state import Status, move
from ganger.engine.store import Exchange, Query
from ganger.engine.stores.postgres import PostgresStore
from ganger.testing.contracts.scene import plain
from tests.contract.test_postgres_together import LONG, command, run, scene
from tests.servers.places import find_misplaced

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
TASKS: Final = 20
CUT: Final = """
ALTER TABLE task RENAME TO whole;
CREATE TABLE task (LIKE whole INCLUDING ALL) PARTITION BY LIST (queue);
CREATE TABLE task_of_one PARTITION OF task FOR VALUES IN (1);
CREATE TABLE task_of_others PARTITION OF task DEFAULT;
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['seen', 'ready_place'] LOOP
        EXECUTE format('CREATE OR REPLACE VIEW %s AS %s', name,
            replace(replace(pg_get_viewdef(name::regclass), 'whole', 'task'), ' task task', ' task'));
    END LOOP;
END
$$;
DROP TABLE whole;
"""


def test_tasks_are_claimed_settled_cancelled_and_found_in_their_own_partition(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()

    async def tell(stores: list[PostgresStore]) -> None:
        store = stores[0]
        await command(url, CUT)
        first = scene(store)
        one, other = await first.queue("one"), await first.queue("other")
        node = await first.node(lease=LONG)
        mine, theirs = await first.submit(*[plain(one)] * TASKS), await first.submit(*[plain(other)] * TASKS)
        assert await store._read(_count_twins) == TASKS
        taken = await first.claim(node, one, most=TASKS)
        assert [task.id for task in taken] == mine
        ended = tuple(move(task.id, "succeed", task.fence) for task in taken[:-1])
        ended += (move(taken[-1].id, "fail", taken[-1].fence),)
        assert (await store.exchange(Exchange(ended))).refused == []
        assert {task.status for task in (await store.find(Query(queue=other))).tasks} == {Status.QUEUED}
        cancelled = tuple(move(task, "cancel") for task in theirs[:5])
        assert (await store.exchange(Exchange(cancelled))).refused == []
        assert [task.id for task in await first.claim(node, other, most=TASKS)] == theirs[5:]
        assert await store._read(find_misplaced) == []

    run(url, tell, 1)


async def _count_twins(connection: Any) -> int:
    """How many tasks lie where one of another partition does."""
    sql = "SELECT count(*) FROM task_of_one AS mine, task_of_others AS theirs WHERE mine.ctid = theirs.ctid"
    found: int = await connection.fetchval(sql)
    return found


def test_a_settle_leaves_the_tasks_alone_that_lie_at_the_same_place(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()

    async def tell(stores: list[PostgresStore]) -> None:
        await command(url, CUT)
        first = scene(stores[0])
        queues = [await first.queue(name) for name in ("one", "other")]
        node = await first.node(lease=LONG)
        ids = await first.submit(*[plain(queue) for queue in queues for _ in range(TASKS)])
        taken = await first.claim(node, *queues, most=2 * TASKS)
        assert [task.id for task in taken] == ids
        ended = tuple(move(task.id, "succeed", task.fence) for task in taken[:TASKS])
        assert (await stores[0].exchange(Exchange(ended))).refused == []
        found = [task.status for task in await stores[0].tasks(ids) if task is not None]
        assert found == [Status.SUCCEEDED] * TASKS + [Status.CLAIMED] * TASKS

    run(url, tell, 1)
