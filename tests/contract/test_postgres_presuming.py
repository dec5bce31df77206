"""An exchange goes by what its process saw last, in one round trip; whatever others have changed since is obeyed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ganger.core.errors import NodeGone
from ganger.core.event import Fact
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, QueueId
from ganger.core.lease import Renewal
from ganger.core.queue import FOREVER, Policy
from ganger.core.state import Status, move
from ganger.core.task import Claimed
from ganger.databases.postgres import Session
from ganger.databases.timekeeping import TOLERANCE
from ganger.engine.store import Claim, Exchange, Exchanged
from ganger.engine.stores.postgres import PostgresStore
from ganger.testing.contracts.scene import plain
from tests.contract.test_postgres_together import LONG, command, run, scene

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


class Bench:
    """A store that works for a node, and another process's store that interferes. Two tasks of many are in work."""

    def __init__(self, stores: list[PostgresStore], queue: QueueId, node: NodeId) -> None:
        self.store, self.other = stores[0], scene(stores[1])
        self.queue = queue
        self.node = node
        self.held: list[Claimed] = []

    async def turn(self, most: int = 2) -> Exchanged:
        """End what is held, and take the next."""
        ended = tuple(move(one.id, "succeed", one.fence)._replace(result=b"done") for one in self.held)
        done = await self.store.exchange(Exchange(ended, Claim(self.node, (self.queue,), most, start=True)))
        self.held = list(done.claimed)
        return done


@asynccontextmanager
async def working(stores: list[PostgresStore], tasks: int = 20, **said: Any) -> AsyncIterator[Bench]:
    mine = scene(stores[0])
    bench = Bench(stores, await mine.queue(), await mine.node(lease=LONG, **said))
    await mine.submit(*[plain(bench.queue)] * tasks)
    for _ in range(2):
        await bench.turn()
    assert len(bench.held) == 2
    yield bench


def _tell(url: str, story: Callable[[Bench], Awaitable[None]], **said: Any) -> None:
    async def tell(stores: list[PostgresStore]) -> None:
        async with working(stores, **said) as bench:
            await story(bench)

    run(url, tell, 2)


@pytest.mark.parametrize("slots", [None, 8])
def test_settling_and_claiming_is_one_statement_and_one_transaction(
    postgres_url: Callable[[], str], slots: int | None
) -> None:
    async def story(bench: Bench) -> None:
        statements = await _count_statements(bench)
        assert statements == ["SELECT * FROM exchange("]

    _tell(postgres_url(), story, slots=slots)


async def _count_statements(bench: Bench) -> list[str]:
    """What is sent to the server in one turn, each as its first line."""
    sent: list[str] = []

    def hear(record: Any) -> None:
        sent.append(record.query.strip().partition("\n")[0])

    pool = bench.store._database._pool
    connections = [await pool.acquire() for _ in range(pool.get_size())]
    for connection in connections:
        connection.add_query_logger(hear)
    for connection in connections:
        await pool.release(connection)
    await bench.turn()
    return sent


def test_a_queue_that_another_process_limits_or_pauses_gives_no_more(postgres_url: Callable[[], str]) -> None:
    async def story(bench: Bench) -> None:
        await bench.other.change_queue(bench.queue, policy=Policy(max_active=1))
        limited = await bench.turn()
        assert (len(limited.claimed), limited.waiting) == (1, True)
        await bench.other.change_queue(bench.queue, policy=Policy(), paused_until=FOREVER)
        assert (await bench.turn()).claimed == []

    _tell(postgres_url(), story)


def test_a_node_that_another_process_limits_or_drains_is_given_no_more(postgres_url: Callable[[], str]) -> None:
    async def story(bench: Bench) -> None:
        assert await bench.other.node(lease=LONG, slots=1) == bench.node
        limited = await bench.turn()
        assert (len(limited.claimed), limited.waiting) == (1, True)
        await bench.other.drain(bench.node)
        with pytest.raises(NodeGone):
            await bench.turn()

    _tell(postgres_url(), story)


def test_a_child_that_came_while_its_parent_ran_is_released(postgres_url: Callable[[], str]) -> None:
    async def story(bench: Bench) -> None:
        (child,) = await bench.other.submit(plain(bench.queue, priority=0, parents=(Edge(bench.held[0].id),)))
        assert await bench.other.statuses(child) == [Status.BLOCKED]
        assert child in [one.id for one in (await bench.turn()).claimed]

    _tell(postgres_url(), story)


def test_a_task_that_was_taken_back_is_refused_and_its_company_is_not(postgres_url: Callable[[], str]) -> None:
    async def story(bench: Bench) -> None:
        lost, kept = bench.held
        await bench.other.make("lose", lost.id)
        assert [index for index, _ in (await bench.turn()).refused] == [0]
        assert await bench.other.statuses(kept.id) == [Status.SUCCEEDED]
        assert (await bench.other.task(lost.id)).fence > lost.fence

    _tell(postgres_url(), story)


def test_numbers_of_every_size_are_told(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()

    async def story(bench: Bench) -> None:
        ids = []
        for first in (1 << 7, 1 << 8, 1 << 16, 1 << 31, 1 << 32, 1 << 62):
            await command(url, f"UPDATE store SET next_task = {first - 1}")
            ids += await bench.other.submit(*[plain(bench.queue)] * 2)
        await bench.store._read(lambda link: link.execute("UPDATE task SET fence = id WHERE id > 100"))
        await bench.store._read(lambda link: link.execute("UPDATE ready SET fence = task WHERE task > 100"))
        await bench.turn(50)
        told = (await bench.other.events())[-1]
        assert told.fact == Fact.CLAIMED
        assert [(one.task, one.fence) for one in told.entries][-len(ids) :] == [(task, task + 1) for task in ids]

    _tell(url, story)


class Cut:
    """A connection whose next exchange is answered by silence: before it arrives, or after it is done."""

    def __init__(self, connection: Any, arrives: bool) -> None:
        self._connection = connection
        self._arrives = arrives

    async def fetchrow(self, sql: str, *bindings: Any) -> Any:
        if self._arrives:
            await self._connection.fetchrow(sql, *bindings)
        self._connection.terminate()
        raise ConnectionResetError("the cable was cut")


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("most", [2, 50])
def test_a_lost_reply_loses_no_task_and_gives_none_twice(
    postgres_url: Callable[[], str], arrives: bool, most: int
) -> None:
    async def story(bench: Bench) -> None:
        ended = [one.id for one in bench.held]
        await bench.other.submit(plain(bench.queue, priority=0, renewal=Renewal.TOUCH, ttr=LONG))
        _cut_once(bench.store, arrives)
        done = await bench.turn(most)
        assert done.refused == []
        assert len(done.claimed) == min(most, 17)
        assert await bench.other.statuses(*ended) == [Status.SUCCEEDED] * 2
        leased = [await bench.other.task(one.id) for one in done.claimed]
        assert [(task.fence, task.holder, task.status) for task in leased] == [
            (one.fence, bench.node, Status.RUNNING) for one in done.claimed
        ]
        assert [one.spec for one in done.claimed] == [b""] * len(done.claimed)
        assert abs((done.claimed[0].until or 0) - (leased[0].until or 0)) < TOLERANCE
        assert (await bench.turn()).refused == []

    _tell(postgres_url(), story)


def _cut_once(store: PostgresStore, arrives: bool) -> None:
    presume = store._presuming.presume

    def presume_once(request: Exchange) -> Any:
        presumption = presume(request)
        assert presumption is not None
        store._presuming.presume = presume  # type: ignore[method-assign]
        return _Doomed(presumption, arrives)

    store._presuming.presume = presume_once  # type: ignore[method-assign]


class _Doomed:
    """The presumption whose first reply is lost."""

    def __init__(self, presumption: Any, arrives: bool) -> None:
        self._presumption = presumption
        self._arrives = arrives
        self._tried = False
        self.recall = presumption.recall
        self.letters = False

    async def run(self, session: Session) -> Any:
        if not self._tried:
            self._tried = True
            session.connection = Cut(session.connection, self._arrives)
        return await self._presumption.run(session)
