"""Wake-ups from other processes: read from the journal, so that none is lost."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ganger.databases.mongo.database import Database
from ganger.databases.mongo.session import Session
from ganger.databases.mongo.watching import MOST, RESET, Watch
from ganger.runtime.entropy import SystemEntropy
from tests.unit.databases.mongo.test_journal import NOTES, Note

pytestmark = pytest.mark.slow
PATIENCE = 60.0
Story = Callable[[Database, Database], Awaitable[None]]


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


def run(url: str, story: Story) -> None:
    async def tell() -> None:
        one, other = [await Database.open(url, SystemEntropy(), ()) for _ in range(2)]
        try:
            await story(one, other)
        finally:
            await one.close()
            await other.close()

    asyncio.run(tell())


async def say(session: Session) -> None:
    session.draft.put(NOTES, Note(1, "said", str(session.head.step)))
    session.topics["a"] = None


async def write(session: Session) -> None:
    session.draft.put(NOTES, Note(2, "else", str(session.head.step)))


async def look(session: Session) -> None:
    await session.draft.get(NOTES, 1)


def test_a_step_that_changes_nothing_hides_none_of_another_process(mongo_url: Callable[[], str]) -> None:
    """It is told by the last step, which is another's: that one was not told here yet."""

    async def story(one: Database, other: Database) -> None:
        there = Heard()
        other.listen((RESET, "a"), there)
        await there.wait(RESET)
        for _ in range(20):
            there.topics.clear()
            await one.step(say, "saying")
            await other.step(look, "looking")
            await there.wait("a")

    run(mongo_url(), story)


def test_whoever_was_away_for_longer_than_the_journal_lasts_is_told_everything(mongo_url: Callable[[], str]) -> None:
    async def story(one: Database, other: Database) -> None:
        reset, there = Heard(), Heard()
        other.listen((RESET,), reset)
        await reset.wait(RESET)
        assert other._watch is not None
        await other._watch.stop()
        await one.step(say, "saying")
        await one.step(write, "writing something else")
        await one.handle["ganger_steps"].delete_many({"_id": {"$lte": 1}})
        other.listen(("a",), there)
        await other._watch._look()
        await there.wait("a")

    run(mongo_url(), story)


def test_however_much_has_happened_it_is_all_told_at_one_look(mongo_url: Callable[[], str]) -> None:
    async def story(one: Database, other: Database) -> None:
        there = Heard()
        other.listen((RESET, "a"), there)
        await there.wait(RESET)
        assert other._watch is not None
        await other._watch.stop()
        steps = one.handle["ganger_steps"]
        quiet = [{"_id": n, "applied": "x", "seal": str(n), "sequences": {}, "topics": []} for n in range(1, MOST + 1)]
        last = {"_id": MOST + 1, "applied": "x", "seal": "last", "sequences": {}, "topics": ["a"]}
        await steps.insert_many([*quiet, last])
        there.topics.clear()
        await other._watch._look()
        await there.wait("a")

    run(mongo_url(), story)


def test_a_step_that_is_half_made_when_the_watch_begins_is_told_when_it_is_made(mongo_url: Callable[[], str]) -> None:
    """Whoever is told to look at the beginning does not see what it does."""

    async def story(one: Database, other: Database) -> None:
        there = Heard()
        assert other._watch is not None
        await other._watch.stop()
        steps = one.handle["ganger_steps"]
        await steps.insert_one({"_id": 1, "seal": "half", "sequences": {}, "topics": ["a"]})
        other.listen((RESET, "a"), there)
        other._watch = Watch(other.handle, other._listeners)
        await other._watch.start()
        await there.wait(RESET)
        await there.wait("a")
        there.topics.clear()
        await steps.update_one({"_id": 1}, {"$set": {"applied": "x"}})
        await there.wait("a")

    run(mongo_url(), story)
