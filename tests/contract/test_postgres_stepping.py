"""A claim steps over what another has locked; if that one does not take it, whoever stepped over it comes again."""

from collections.abc import Callable

import asyncpg
import pytest

from ganger.core.ids import TaskId
from ganger.databases.postgres import read_address
from ganger.engine.store import Claim, Exchange
from ganger.engine.stores.postgres import PostgresStore
from ganger.engine.stores.postgres.claiming import SOON
from ganger.runtime.clock import SystemClock
from ganger.testing.contracts.scene import plain
from tests.contract.test_postgres_together import LONG, run, scene

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


class Lock:
    """A transaction of somebody else that has these tasks locked, and then changes nothing."""

    def __init__(self, url: str, tasks: list[TaskId]) -> None:
        self._address = read_address(url)
        self._tasks = tasks

    async def __aenter__(self) -> None:
        self._connection = await asyncpg.connect(self._address.url)
        await self._connection.execute(f"SET search_path = {self._address.schema}")
        await self._connection.execute("BEGIN")
        await self._connection.fetch("SELECT 1 FROM task WHERE id = ANY($1) FOR NO KEY UPDATE", self._tasks)

    async def __aexit__(self, *_: object) -> None:
        await self._connection.execute("ROLLBACK")
        await self._connection.close()


@pytest.mark.parametrize("limit", [None, 5])
def test_whoever_steps_over_a_task_is_told_to_look_again_soon(postgres_url: Callable[[], str], limit: int) -> None:
    url = postgres_url()

    async def tell(stores: list[PostgresStore]) -> None:
        (store,) = stores
        queue, node = await scene(store).queue(max_active=limit), await scene(store).node(lease=LONG)
        ask = Exchange(claim=Claim(node, (queue,), 2))
        first, *rest = await scene(store).submit(*[plain(queue)] * 3)
        for taken in ([first], []):
            async with Lock(url, rest):
                done = await store.exchange(ask)
            assert [one.id for one in done.claimed] == taken
            assert done.next_due is not None
            assert done.next_due <= SystemClock().wall() + SOON
        assert [one.id for one in (await store.exchange(ask)).claimed] == rest

    run(url, tell, 1)


def test_nobody_looks_again_for_what_a_limit_keeps_back_or_what_is_taken(postgres_url: Callable[[], str]) -> None:
    async def tell(stores: list[PostgresStore]) -> None:
        (store,) = stores
        node = await scene(store).node(lease=LONG)
        for name, limit in (("limited", 1), ("plain", None)):
            queue = await scene(store).queue(name, max_active=limit)
            await scene(store).submit(*[plain(queue)] * 2)
            for had in (limit or 2, 0):
                done = await store.exchange(Exchange(claim=Claim(node, (queue,), 5)))
                assert (len(done.claimed), done.next_due) == (had, None)

    run(postgres_url(), tell, 1)
