"""A schema that an older version made is brought up to date with the tasks that are in it."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.state import Status, move
from ganger.databases.postgres import Database, load_migrations
from ganger.engine.store import Claim, Configure, Exchange, NodeChange, Query
from ganger.engine.stores import postgres
from ganger.engine.stores.postgres import PostgresStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from tests.servers.places import find_misplaced

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
BEFORE_PLACES: Final = 2
QUEUE, ADA = QueueId(1), NodeId(1)
LONG: Final = 600_000
LIVED: Final = """
INSERT INTO queue (name, policy) VALUES ('work', '[]');
INSERT INTO lane VALUES (1, 'command', '{}', 0, 0);
INSERT INTO identity (name) VALUES ('ada');
INSERT INTO node (identity, token, state, until, term, lease, labels, since, seen)
    VALUES (1, 'ada', 'active', 9000000000000000, 600000, 600000, '{}', 1, 1);
INSERT INTO task
    (id, queue, lane, status, priority, rank, spec, created, modified, fence, holder, due, limit_key, parked)
VALUES
    (1, 1, 1, -2, 1024, 1, '', 1, 1, 0, NULL, NULL, NULL, false),
    (2, 1, 1, 0, 1024, 2, '', 1, 1, 3, 1, NULL, NULL, false),
    (3, 1, 1, -8, 1024, 3, '', 1, 1, 0, NULL, 1, NULL, false),
    (4, 1, 1, 1, 1024, 4, '', 1, 1, 1, NULL, NULL, NULL, false),
    (5, 1, 1, -2, 1024, 5, '', 1, 1, 0, NULL, NULL, 'k', true),
    (6, 1, 1, 2, 1024, 6, '', 1, 1, 1, NULL, NULL, NULL, false);
UPDATE task SET last = 1, claimed = 2, started = 3, ended = 4, waits = 5, kids = 6, failures = 7, grp = 8, batch = 9,
    attempts = 10, crashes = 11, reserves = 12, timeouts = 13, releases = 14, buries = 15, kicks = 16, delay = 17,
    retry = '18', timeout = 19, ttr = 20, description = '21', percent = 22, info = '23', reason = '24', retry_of = 25,
    spec = '26', key = '27' WHERE id = 4;
GRANT SELECT, INSERT ON task TO PUBLIC;
INSERT INTO book VALUES (1, '-2', 2), (1, '0', 1), (1, '-8', 1), (1, '1', 1), (1, '2', 1);
"""


def test_tasks_of_an_older_schema_are_claimed_settled_and_found(postgres_url: Callable[[], str]) -> None:
    asyncio.run(_tell(postgres_url()))


def test_every_value_of_a_task_and_every_right_on_them_is_kept(postgres_url: Callable[[], str]) -> None:
    asyncio.run(_compare(postgres_url()))


async def _compare(url: str) -> None:
    before = await _live_before(url)
    store = await PostgresStore.open(url, SystemClock(), SystemEntropy())
    try:
        after = await store._read(_read_tasks)
        assert [{name: task[name] for name in old} for task, old in zip(after, before, strict=True)] == before
        rights = ("SELECT", "INSERT", "UPDATE", "DELETE")
        assert [await store._read(_may(right)) for right in rights] == [True, True, False, False]
    finally:
        await store.close()


async def _read_tasks(connection: Any) -> list[dict[str, Any]]:
    return [json.loads(row[0]) for row in await connection.fetch("SELECT to_json(task) FROM task ORDER BY id")]


def _may(right: str) -> Callable[[Any], Any]:
    return lambda connection: connection.fetchval("SELECT has_table_privilege('public', 'task', $1)", right)


async def _tell(url: str) -> None:
    await _live_before(url)
    store = await PostgresStore.open(url, SystemClock(), SystemEntropy())
    try:
        assert await store._read(find_misplaced) == []
        assert await _find(store, holder=ADA) == [2]
        assert await _find(store, statuses=(Status.FAILED,)) == [6]
        bob = (await store.configure(Configure(node=NodeChange(register=Registration("bob", "b", lease=LONG))))).node
        assert bob is not None
        settled = (move(TaskId(2), "succeed", Fence(3)),)
        done = await store.exchange(Exchange(settled, Claim(bob.id, (QUEUE,), 10)))
        assert done.refused == []
        assert [one.id for one in done.claimed] == [1, 3]
        assert await store._read(find_misplaced) == []
    finally:
        await store.close()


async def _live_before(url: str) -> list[dict[str, Any]]:
    """Tasks of an older version, as they are stored."""
    older = load_migrations(postgres.__name__, "migrations")[:BEFORE_PLACES]
    database = await Database.open(url, older, SystemClock(), SystemEntropy(), pulse=_stand_still)
    try:
        await database.read(lambda connection: connection.execute(LIVED), "living")
        return await database.read(_read_tasks, "reading")
    finally:
        await database.close()


async def _stand_still(_connection: Any) -> tuple[int, bool]:
    return 0, False


async def _find(store: PostgresStore, **asked: Any) -> list[int]:
    return [task.id for task in (await store.find(Query(**asked))).tasks]
