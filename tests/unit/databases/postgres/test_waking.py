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
    session.beats = 1
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
