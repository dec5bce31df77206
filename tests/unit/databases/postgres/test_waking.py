"""Wake-ups between processes: few, soon, and never the only way to learn of something."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from ganger.databases.postgres import Database, Session
from ganger.databases.postgres.waking import APART, RESET, Crier
from tests.unit.databases.postgres.counter import add, end_others, opened

PATIENCE = 60.0


class Heard:
    """What was told, and a way to wait for it."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self._some = asyncio.Event()

    def __call__(self, topic: str) -> None:
        self.topics.append(topic)
        self._some.set()

    async def wait(self, topic: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while topic not in self.topics:
                self._some.clear()
                await self._some.wait()


@asynccontextmanager
async def two(url: str) -> AsyncIterator[tuple[Database, Database]]:
    async with opened(url) as one, opened(url) as other:
        for each in (one, other):
            assert each._services is not None
            await asyncio.wait_for(each._services[1].ready.wait(), PATIENCE)
        yield one, other


def run(url: str, tell: Callable[[Database, Database], Awaitable[None]]) -> None:
    async def story() -> None:
        async with two(url) as (one, other):
            await tell(one, other)

    asyncio.run(story())


async def say(session: Session, topic: str) -> None:
    await add(session)
    session.wake(topic)


def test_what_is_committed_here_is_heard_here_and_there(postgres_url: Callable[[], str]) -> None:
    async def tell(one: Database, other: Database) -> None:
        here, there, elsewhere = Heard(), Heard(), Heard()
        one.listen(("a",), here)
        other.listen(("a",), there)
        other.listen(("b",), elsewhere)
        await one.transact(lambda session: say(session, "a"), "saying")
        await here.wait("a")
        await there.wait("a")
        assert (here.topics, elsewhere.topics) == (["a"], [])

    run(postgres_url(), tell)


def test_whoever_stopped_listening_is_told_nothing_more(postgres_url: Callable[[], str]) -> None:
    async def tell(one: Database, other: Database) -> None:
        gone, there = Heard(), Heard()
        other.listen(("a",), gone)()
        other.listen(("a",), there)
        await one.transact(lambda session: say(session, "a"), "saying")
        await there.wait("a")
        assert gone.topics == []

    run(postgres_url(), tell)


def test_a_thousand_wake_ups_are_told_as_a_few(postgres_url: Callable[[], str]) -> None:
    async def tell(one: Database, other: Database) -> None:
        there, last = Heard(), Heard()
        other.listen(("a",), there)
        other.listen(("last",), last)
        assert one._services is not None
        began = asyncio.get_running_loop().time()
        for _ in range(1_000):
            one._services[0].cry(["a"])
            await asyncio.sleep(0)
        one._services[0].cry(["last"])
        await last.wait("last")
        passed = asyncio.get_running_loop().time() - began
        assert 1 <= len(there.topics) <= passed / APART + 2

    run(postgres_url(), tell)


def test_a_wake_up_that_was_swallowed_is_made_up_for(postgres_url: Callable[[], str]) -> None:
    """As behind a pooler: the other writes, and its notification never arrives."""

    async def tell(one: Database, other: Database) -> None:
        there = Heard()
        other.listen(("a",), there)
        assert one._services is not None
        await one._services[0].stop()
        await one.transact(lambda session: say(session, "a"), "saying")
        await there.wait("a")

    run(postgres_url(), tell)


def test_a_wake_up_that_is_heard_hides_none_that_was_swallowed(postgres_url: Callable[[], str]) -> None:
    async def tell(one: Database, other: Database) -> None:
        there, beside = Heard(), Heard()
        other.listen(("a",), there)
        other.listen(("b",), beside)
        crier = Crier(one._connect, one.address.channel, "x")
        await crier.start()
        assert one._services is not None
        await one._services[0].stop()
        await one.transact(lambda session: say(session, "a"), "saying")
        crier.cry(["b"])
        await beside.wait("b")
        await there.wait("a")
        await crier.stop()

    run(postgres_url(), tell)


class Held:
    """A connection on which a wake-up is out, and whose answer is not back before the gate is opened."""

    def __init__(self, connection: Any, sent: asyncio.Event, gate: asyncio.Event) -> None:
        self._connection = connection
        self._sent, self._gate = sent, gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, sql: str, *bindings: Any) -> Any:
        done = await self._connection.execute(sql, *bindings)
        self._sent.set()
        await self._gate.wait()
        return done


def test_what_is_cried_while_the_same_is_on_its_way_is_cried_again(postgres_url: Callable[[], str]) -> None:
    async def tell(one: Database, other: Database) -> None:
        there, sent, gate = Heard(), asyncio.Event(), asyncio.Event()
        other.listen(("a",), there)

        async def connect() -> Any:
            return Held(await one._connect(), sent, gate)

        crier = Crier(connect, one.address.channel, "x")
        crier.cry(["a"])
        await crier.start()
        await asyncio.wait_for(sent.wait(), PATIENCE)
        await there.wait("a")
        there.topics.clear()
        crier.cry(["a"])
        gate.set()
        await there.wait("a")
        await crier.stop()

    run(postgres_url(), tell)


def test_whoever_is_cut_off_again_and_again_is_told_within_a_second(postgres_url: Callable[[], str]) -> None:
    """A pause that grew with each loss would leave everybody deaf for half a minute."""

    async def tell(one: Database, other: Database) -> None:
        there = Heard()
        other.listen((RESET,), there)
        loop = asyncio.get_running_loop()
        waits: list[float] = []
        for _ in range(8):
            there.topics.clear()
            began = loop.time()
            await one.read(end_others, "breaking")
            await there.wait(RESET)
            waits.append(loop.time() - began)
        assert sorted(waits)[4] < 1.0

    run(postgres_url(), tell)


def test_whoever_lost_its_connection_is_told_to_look(postgres_url: Callable[[], str]) -> None:
    async def tell(one: Database, other: Database) -> None:
        there = Heard()
        other.listen((RESET, "a"), there)
        await one.read(end_others, "breaking")
        await there.wait(RESET)
        await one.transact(lambda session: say(session, "a"), "saying")
        await there.wait("a")

    run(postgres_url(), tell)


def test_what_could_not_be_cried_is_cried_by_the_next_connection(postgres_url: Callable[[], str]) -> None:
    async def tell(one: Database, other: Database) -> None:
        there = Heard()
        other.listen(("a",), there)
        cut = [True, False]

        async def connect() -> Any:
            connection = await one._connect()
            if cut.pop(0):
                connection.terminate()
            return connection

        crier = Crier(connect, one.address.channel, "x")
        crier.cry(["a"])
        await crier.start()
        await there.wait("a")
        await crier.stop()

    run(postgres_url(), tell)
