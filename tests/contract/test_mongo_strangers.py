"""The MongoDB store beside strangers: their documents are the protocol's, and so are ours."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any

import pytest
from bson import ObjectId
from pymongo import AsyncMongoClient

from ganger.core.clock import Wall
from ganger.core.errors import NodeTaken
from ganger.core.event import Fact
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, QueueId
from ganger.core.state import Status, move
from ganger.core.task import Claimed
from ganger.databases.timekeeping import HandedTime
from ganger.engine.store import Claim, Exchange, Query, Tend
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
    async with open_both(url) as (scene, database):
        await story(scene, database)


@asynccontextmanager
async def open_both(url: str) -> AsyncIterator[tuple[Scene, Any]]:
    clock = FakeClock()
    store = await MongoStore.open(url, clock, SeededEntropy(1), timekeeper=HandedTime(clock))
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url)
    try:
        yield Scene(store, clock), client.get_default_database()
    finally:
        await store.close()
        await client.close()


async def make_queue(database: Any, **fields: Any) -> ObjectId:
    made = await database.queues.insert_one({"name": "demo", "constructor": DEMO, "maxthreads": None, **fields})
    found: ObjectId = made.inserted_id
    return found


async def add_task(database: Any, queue: ObjectId, **fields: Any) -> ObjectId:
    task = {"queue": queue, "node": -1, "status": -2, "parameters": {"user": "ashley"}, "stdout": None, "stderr": None}
    made = await database.tasks.insert_one({**task, **fields})
    found: ObjectId = made.inserted_id
    return found


async def look(scene: Scene) -> None:
    """Upkeep looks at what strangers did."""
    await scene.store.tend(Tend(release=True))


async def queue_of(scene: Scene) -> QueueId:
    (queue,) = (await scene.store.directory()).queues
    return queue.id


async def take(scene: Scene, node: NodeId, queue: QueueId, most: int = 10) -> list[Claimed]:
    return (await scene.store.exchange(Exchange(claim=Claim(node, (queue,), most)))).claimed


def test_our_documents_have_the_fields_of_the_protocol(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        queue = await scene.queue("demo", plugin=DEMO, max_per_node=3)
        await scene.submit(plain(queue, kind=KIND, spec=b'{"params":{"user":"ashley"}}'))
        found, kept = await database.tasks.find_one(), await database.queues.find_one()
        protocol = {"_id", "ctime", "mtime", "queue", "node", "parameters", "status", "stdout", "stderr"}
        assert set(found) == {*protocol, "ganger"}
        assert (found["queue"], found["node"], found["status"]) == (kept["_id"], -1, -2)
        assert found["parameters"] == {"user": "ashley"}
        assert (kept["name"], kept["constructor"], kept["maxthreads"], kept["sort"]) == ("demo", DEMO, 3, "default")
        await look(scene)
        kept = await database.queues.find_one()
        assert (kept["count_todo"], kept["count_total"]) == (1, 1)

    tell(story)


def test_a_queue_of_our_own_kinds_is_nothing_that_a_stranger_has_a_plugin_for(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        await scene.queue()
        assert (await database.queues.find_one())["constructor"] == "Ganger"

    tell(story)


def test_a_task_with_nothing_but_the_protocols_fields_runs(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        await look(scene)
        queue, node = await queue_of(scene), await scene.node("mig01", kinds=(KIND,))
        task = await add_task(database, place, extra="theirs")
        (claimed,) = await take(scene, node, queue)
        assert (claimed.kind, claimed.spec) == (KIND, b'{"params":{"user":"ashley"}}')
        found = await database.tasks.find_one({"_id": task})
        assert (found["node"], found["status"]) == ("mig01", -1)
        await scene.write(append(claimed.id, claimed.fence, 0, b"hello"))
        await scene.settle("succeed", claimed)
        found = await database.tasks.find_one({"_id": task})
        assert (found["node"], found["status"], found["extra"], found["stdout"]) == ("mig01", 1, "theirs", "hello")

    tell(story)


def test_long_output_is_a_file_of_gridfs(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        queue, node = await scene.queue("demo", plugin=DEMO), await scene.node()
        await scene.submit(plain(queue, kind=KIND))
        (claimed,) = await take(scene, node, queue)
        body = b"x" * 600_000
        await scene.write(append(claimed.id, claimed.fence, 0, body))
        await scene.settle("succeed", claimed)
        found = await database.tasks.find_one()
        file = await database["tasks.files"].find_one({"_id": found["stdout"]})
        assert (file["length"], file["metadata"]["task_id"]) == (len(body), found["_id"])
        parts = [part async for part in database["tasks.chunks"].find({"files_id": file["_id"]}).sort("n", 1)]
        assert b"".join(part["data"] for part in parts) == body

    tell(story)


def test_a_task_is_taken_by_one_of_the_two(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        await look(scene)
        queue, node = await queue_of(scene), await scene.node()
        tasks = [await add_task(database, place) for _ in range(20)]

        async def stranger() -> list[ObjectId]:
            taken = []
            where = {"node": -1, "status": -2, "queue": place}
            claim = {"$set": {"node": "other", "status": -1}}
            while found := await database.tasks.find_one_and_update(where, claim, sort=[("_id", 1)]):
                taken.append(found["_id"])
                await asyncio.sleep(0)
            return taken

        theirs, ours = await asyncio.gather(stranger(), _take_all(scene, node, queue))
        assert len(theirs) + len(ours) == len(tasks)
        by_node = [found["node"] async for found in database.tasks.find()]
        assert (by_node.count("other"), by_node.count("n")) == (len(theirs), len(ours))

    tell(story)


async def _take_all(scene: Scene, node: NodeId, queue: QueueId) -> list[Claimed]:
    taken: list[Claimed] = []
    while more := await take(scene, node, queue, 3):
        taken += more
    return taken


def test_what_a_stranger_ends_is_told_and_followed(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        task = await add_task(database, place)
        await look(scene)
        own = await scene.queue("own")
        page = await scene.store.find(Query(most=10))
        child = await scene.add(own, parents=(Edge(page.tasks[0].id),))
        assert await scene.statuses(child) == [Status.BLOCKED]
        await database.tasks.update_one({"_id": task}, {"$set": {"node": "other", "status": 1, "stdout": "done"}})
        await look(scene)
        assert await scene.statuses(child) == [Status.QUEUED]
        facts = [event.fact for event in await scene.events()]
        assert Fact.SETTLED in facts
        assert (await database.tasks.find_one({"_id": task}))["stdout"] == "done"

    tell(story)


def test_codes_that_nobody_is_to_touch_are_not_touched(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        await look(scene)
        queue, node = await queue_of(scene), await scene.node()
        codes = (-7, -8, -99)
        tasks = [await add_task(database, place, status=code) for code in codes]
        before = [await database.tasks.find_one({"_id": task}) for task in tasks]
        await look(scene)
        scene.clock.advance(10**9)
        await scene.store.tend(Tend(promote=True))
        await scene.store.tend(Tend(lapse=True))
        assert await take(scene, await scene.node("later"), queue) == []
        assert [await database.tasks.find_one({"_id": task}) for task in tasks] == before
        (counts, *_), _ = await scene.store.counts()
        assert (counts.todo, counts.total, node > 0) == (3, 3, True)

    tell(story)


def test_a_lease_that_we_did_not_give_is_never_ended(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        task = await add_task(database, place, status=0, node="other")
        await look(scene)
        scene.clock.advance(10**9)
        lapsed = (await scene.store.tend(Tend(lapse=True))).lapsed
        found = await database.tasks.find_one({"_id": task})
        assert (lapsed, found["status"], found["node"]) == ([], 0, "other")

    tell(story)


def test_a_living_stranger_keeps_its_name(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        await scene.node("ours")
        shown = await database.nodes.find_one({"node": "ours"})
        assert set(shown) == {"_id", "node", "timestamp", "queues", "maxthreads", "ganger"}
        theirs = {"node": "theirs", "timestamp": shown["timestamp"], "queues": []}
        await database.nodes.insert_one(theirs)
        with pytest.raises(NodeTaken, match="Disbatch"):
            await scene.node("theirs")
        scene.clock.advance(120_000)
        await scene.node("theirs")
        (taken,) = await database.nodes.find({"node": "theirs"}).to_list()
        assert (taken["_id"], taken["timestamp"] > theirs["timestamp"], "ganger" in taken) == (
            theirs["_id"],
            True,
            True,
        )

    tell(story)


def test_the_node_shows_its_queues_with_their_counts(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        queue, node = await scene.queue("demo", plugin=DEMO, max_per_node=5), await scene.node()
        await scene.submit(*(plain(queue, kind=KIND) for _ in range(3)))
        first, _ = await take(scene, node, queue, 2)
        await scene.store.exchange(Exchange((move(first.id, "succeed", first.fence),)))
        await look(scene)
        (shown,) = (await database.nodes.find_one())["queues"]
        place = str((await database.queues.find_one())["_id"])
        told = {"tasks_todo": 1, "tasks_doing": 1, "tasks_done": 1, "preemptive": 1, "tasks_backfill": 0}
        assert shown == {"id": place, "name": "demo", "constructor": DEMO, "maxthreads": 5, **told}

    tell(story)


def test_what_was_taken_for_a_step_that_never_came_is_given_back(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        await look(scene)
        task = await add_task(database, place)
        mark = {"ganger.pending": "a step of a dead process", "ganger.pended": 0}
        await database.tasks.update_one({"_id": task}, {"$set": {"node": "n", "status": -1, **mark}})
        scene.clock.advance(120_000)
        await look(scene)
        found = await database.tasks.find_one({"_id": task})
        assert (found["node"], found["status"]) == (-1, -2)
        queue, node = await queue_of(scene), await scene.node("n")
        assert len(await take(scene, node, queue)) == 1

    tell(story)


def test_times_are_dates(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        task = await scene.add(await scene.queue())
        found = await database.tasks.find_one()
        assert Wall(round(found["ctime"].replace(tzinfo=UTC).timestamp() * 1_000)) == (await scene.task(task)).created

    tell(story)


def test_what_a_stranger_had_in_hand_is_orphaned_when_ours_starts_under_its_name(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        known = await add_task(database, place, status=0, node="mig01")
        await look(scene)
        new = await add_task(database, place, status=-1, node="mig01")
        other = await add_task(database, place, status=0, node="mig02")
        await scene.node("mig01")
        statuses = [(await database.tasks.find_one({"_id": task}))["status"] for task in (known, new, other)]
        assert statuses == [-6, -6, 0]
        assert Fact.LOST in [event.fact for event in await scene.events()]

    tell(story)


def test_what_a_stranger_writes_as_the_limit_of_our_node_is_obeyed_from_its_next_beat_on(
    tell: Callable[[Story], None],
) -> None:
    async def story(scene: Scene, database: Any) -> None:
        queue, node = await scene.queue("demo", plugin=DEMO), await scene.node(slots=4)
        await scene.submit(*(plain(queue, kind=KIND) for _ in range(6)))
        assert (await database.nodes.find_one())["maxthreads"] == 4
        await database.nodes.update_one({"node": "n"}, {"$set": {"maxthreads": 1}})
        await scene.beat(node)
        assert len(await take(scene, node, queue)) == 1
        assert (await database.nodes.find_one())["maxthreads"] == 1
        await database.nodes.update_one({"node": "n"}, {"$set": {"maxthreads": None}})
        await scene.beat(node)
        assert (await database.nodes.find_one())["maxthreads"] == 4
        assert len(await take(scene, node, queue)) == 3

    tell(story)
