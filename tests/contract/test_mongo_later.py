"""The MongoDB store in the later dialect of Disbatch: its documents have other words, and mean the same."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from ganger.core.errors import Conflict
from ganger.core.ids import NodeId, QueueId
from ganger.core.queue import Policy
from ganger.core.state import move
from ganger.core.task import Claimed
from ganger.databases.timekeeping import HandedTime
from ganger.engine.store import Claim, Exchange, Tend
from ganger.engine.stores.mongo import MongoStore
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.contracts.scene import Scene, append, plain

pytestmark = pytest.mark.slow
DEMO = "Disbatch::Plugin::Demo"
KIND = f"plugin:{DEMO}"
Story = Callable[[Scene, Any], Awaitable[None]]


@pytest.fixture
def tell(mongo_url: Callable[[], str]) -> Callable[[Story], None]:
    """Run a story with a store and a stranger's own handle of the same database."""
    return lambda story: asyncio.run(_run(mongo_url(), story))


async def _run(url: str, story: Story) -> None:
    clock = FakeClock()
    store = await MongoStore.open(url, clock, SeededEntropy(1), timekeeper=HandedTime(clock), dialect="later")
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url)
    try:
        await story(Scene(store, clock), client.get_default_database())
    finally:
        await store.close()
        await client.close()


async def make_queue(database: Any, **fields: Any) -> ObjectId:
    made = await database.queues.insert_one({"name": "demo", "plugin": DEMO, "threads": None, **fields})
    found: ObjectId = made.inserted_id
    return found


async def add_task(database: Any, queue: ObjectId, **fields: Any) -> ObjectId:
    task = {"queue": queue, "node": None, "status": -2, "params": {"user": "ada"}, "stdout": None, "stderr": None}
    made = await database.tasks.insert_one({**task, **fields})
    found: ObjectId = made.inserted_id
    return found


async def take(scene: Scene, node: NodeId, most: int = 10) -> list[Claimed]:
    return (await scene.store.exchange(Exchange(claim=Claim(node, (await queue_of(scene),), most)))).claimed


async def queue_of(scene: Scene) -> QueueId:
    (queue,) = (await scene.store.directory()).queues
    return queue.id


def test_our_documents_have_the_later_words_and_no_others(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        queue = await scene.queue("demo", plugin=DEMO, max_active=3, max_per_node=2)
        await scene.submit(plain(queue, kind=KIND, spec=b'{"params":{"user":"ada"}}'))
        await scene.node()
        await scene.store.tend(Tend(release=True))
        task, kept, node = [await database[name].find_one() for name in ("tasks", "queues", "nodes")]
        words = {"_id", "ctime", "mtime", "queue", "node", "params", "status", "stdout", "stderr", "ganger"}
        assert (set(task), task["node"], task["params"]) == (words, None, {"user": "ada"})
        assert (kept["plugin"], kept["threads"]) == (DEMO, 3)
        assert not {"constructor", "maxthreads", "count_todo", "count_total"} & set(kept)
        assert "queues" not in node
        (told,) = (await scene.store.directory()).queues
        assert (told.policy.max_active, told.policy.max_per_node, told.policy.plugin) == (3, 2, DEMO)

    tell(story)


def test_a_strangers_task_is_taken_whichever_word_it_has_for_nobody(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        tasks = [await add_task(database, place), await add_task(database, place, node=-1)]
        missing = await add_task(database, place)
        await database.tasks.update_one({"_id": missing}, {"$unset": {"node": ""}})
        await scene.store.tend(Tend(release=True))
        claimed = await take(scene, await scene.node("mig01", kinds=(KIND,)))
        assert [one.spec for one in claimed] == [b'{"params":{"user":"ada"}}'] * 3
        assert await database.tasks.count_documents({"node": "mig01", "status": -1}) == len(tasks) + 1

    tell(story)


def test_a_task_that_has_ended_is_complete_and_says_what_went_wrong(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        await scene.store.tend(Tend(release=True))
        good, bad = await add_task(database, place, extra="theirs"), await add_task(database, place)
        first, second = await take(scene, await scene.node(kinds=(KIND,)))
        await scene.write(append(first.id, first.fence, 0, b"hello"))
        failed = move(second.id, "fail", second.fence)._replace(reason="it exited with code 3")
        await scene.store.exchange(Exchange((move(first.id, "succeed", first.fence), failed)))
        ended, broken = [await database.tasks.find_one({"_id": task}) for task in (good, bad)]
        assert (ended["status"], ended["complete"], ended["stdout"], ended["extra"]) == (1, True, "hello", "theirs")
        assert (broken["status"], broken["complete"], broken["cmdErr"]) == (2, True, "it exited with code 3")
        assert "cmdErr" not in ended

    tell(story)


def test_what_a_stranger_says_of_the_limit_counts_over_all_nodes(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database, threads=2)
        for _ in range(5):
            await add_task(database, place)
        await scene.store.tend(Tend(release=True))
        one, two = await scene.node("one", kinds=(KIND,)), await scene.node("two", kinds=(KIND,))
        assert (len(await take(scene, one)), len(await take(scene, two))) == (2, 0)
        await database.queues.update_one({"_id": place}, {"$set": {"threads": 3}})
        assert len(await take(scene, two)) == 1
        await scene.change_queue(await queue_of(scene), policy=Policy(plugin=DEMO, max_active=4))
        assert (await database.queues.find_one())["threads"] == 4

    tell(story)


def test_what_is_given_back_is_nobodys_again(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        await scene.store.tend(Tend(release=True))
        task, left = await add_task(database, place), await add_task(database, place)
        mark = {"ganger.pending": "a step of a dead process", "ganger.pended": 0}
        await database.tasks.update_one({"_id": left}, {"$set": {"node": "n", "status": -1, **mark}})
        (claimed,) = await take(scene, await scene.node(kinds=(KIND,)), 1)
        await scene.settle("release", claimed)
        scene.clock.advance(120_000)
        await scene.store.tend(Tend(release=True))
        found = [await database.tasks.find_one({"_id": one}) for one in (task, left)]
        assert [(one["node"], one["status"]) for one in found] == [(None, -2), (None, -2)]

    tell(story)


def test_a_name_that_a_queue_has_is_refused(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        await make_queue(database, name="theirs")
        ours = await scene.queue("ours")
        for name in ("ours", "theirs"):
            with pytest.raises(Conflict, match="names are unique"):
                await scene.queue(name)
        with pytest.raises(Conflict, match="names are unique"):
            await scene.change_queue(ours, name="theirs")
        await scene.change_queue(ours, name="ours")

    tell(story)
