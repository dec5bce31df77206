"""The MongoDB store beside strangers: their documents are the protocol's, and so are ours."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import ObjectId

from ganger.core.audit import Act
from ganger.core.clock import Wall
from ganger.core.errors import NodeTaken
from ganger.core.event import Fact
from ganger.core.graph import Edge
from ganger.core.ids import NodeId, Position, QueueId
from ganger.core.state import Status, move
from ganger.core.task import Claimed
from ganger.engine.store import Exchange, Query, Strangers, Tend
from ganger.testing.contracts.scene import Scene, append, plain
from tests.contract.beside import DEMO, KIND, Story, insert, look, open_both, queue_of, take, tell_story

pytestmark = pytest.mark.slow


@pytest.fixture
def tell(mongo_url: Callable[[], str]) -> Callable[[Story], None]:
    """Run a story with a store and a stranger's own handle of the same database."""
    return lambda story: tell_story(mongo_url(), story)


async def make_queue(database: Any, **fields: Any) -> ObjectId:
    return await insert(database.queues, {"name": "demo", "constructor": DEMO, "maxthreads": None, **fields})


async def add_task(database: Any, queue: ObjectId, **fields: Any) -> ObjectId:
    task = {"queue": queue, "node": -1, "status": -2, "parameters": {"user": "ashley"}, "stdout": None, "stderr": None}
    return await insert(database.tasks, {**task, **fields})


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

        theirs, ours = await asyncio.gather(_take_as_stranger(database, place), _take_all(scene, node, queue, 3))
        assert len(theirs) + len(ours) == len(tasks)
        by_node = [found["node"] async for found in database.tasks.find()]
        assert (by_node.count("other"), by_node.count("n")) == (len(theirs), len(ours))

    tell(story)


async def _take_as_stranger(database: Any, place: ObjectId) -> list[ObjectId]:
    """One after the other, as the protocol has it."""
    taken: list[ObjectId] = []
    where, claim = {"node": -1, "status": -2, "queue": place}, {"$set": {"node": "other", "status": -1}}
    while found := await database.tasks.find_one_and_update(where, claim, sort=[("_id", 1)]):
        taken.append(found["_id"])
        await asyncio.sleep(0)
    return taken


async def _take_all(scene: Scene, node: NodeId, queue: QueueId, most: int) -> list[Claimed]:
    taken: list[Claimed] = []
    while more := await take(scene, node, queue, most):
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
        # At the first look that step might still get in.
        for _ in range(2):
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


def test_what_a_stranger_printed_and_gave_its_task_besides_is_read(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place, body = await make_queue(database), b"0123456789" * 60_000
        file = await insert(database["tasks.files"], {"length": len(body), "chunkSize": 255 * 1024})
        for n, start in enumerate(range(0, len(body), 255 * 1024)):
            await insert(database["tasks.chunks"], {"files_id": file, "n": n, "data": body[start : start + 255 * 1024]})
        printed = {"stdout": file, "stderr": "süß", "status": 1, "node": "other", "owner": "ada", "cmdExit": 0}
        task = await add_task(database, place, **printed)
        await look(scene)
        known = (await database.ganger_seen.find_one({"_id": task}))["n"]
        read = [await scene.store.value(known, "out:stdout", start, 10) for start in (3, 261_117, len(body) - 4)]
        assert [(part.body, part.size) for part in read] == [
            (body[start : start + 10], len(body)) for start in (3, 261_117, len(body) - 4)
        ]
        assert (await scene.store.value(known, "out:stderr", 2, 3)).body == "süß".encode()[2:5]
        assert (await scene.store.look(known)).streams == ["stderr", "stdout"]
        assert (await scene.store.value(known, "disbatch")).body == b'{"owner":"ada","cmdExit":0}'

    tell(story)


def test_long_output_of_text_is_read_by_its_bytes(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place, text = await make_queue(database), "äöü" * 10
        file = await insert(database["tasks.files"], {"length": len(text.encode()), "chunkSize": 8})
        for n in range(4):
            await insert(database["tasks.chunks"], {"files_id": file, "n": n, "data": text[8 * n : 8 * n + 8]})
        task = await add_task(database, place, stdout=file, status=1, node="other")
        await look(scene)
        known = (await database.ganger_seen.find_one({"_id": task}))["n"]
        parts = [(await scene.store.value(known, "out:stdout", start, 7)).body or b"" for start in range(0, 60, 7)]
        assert b"".join(parts) == text.encode()

    tell(story)


def test_nodes_of_strangers_are_known_and_limited_where_they_look(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        store = scene.store
        assert isinstance(store, Strangers)
        await scene.node("ours")
        shown = await database.nodes.find_one()
        queues = [{"name": "demo", "constructor": DEMO}]
        for name, heard in (("lives", datetime.now(UTC)), ("is gone", datetime(2020, 1, 1, tzinfo=UTC))):
            await insert(database.nodes, {"node": name, "timestamp": heard, "queues": queues, "maxthreads": None})
        gone, lives = await store.strangers()
        assert [(one.name, one.here, one.queues, one.slots) for one in (gone, lives)] == [
            ("is gone", False, ("demo",), None),
            ("lives", True, ("demo",), None),
        ]
        act = Act("ada", "node.limit", "lives")
        changed = await store.limit_stranger("lives", 3, act)
        assert (changed and changed.slots, await store.limit_stranger("ours", 3, act)) == (3, None)
        assert (await database.nodes.find_one({"node": "lives"}))["maxthreads"] == 3
        assert await database.nodes.find_one({"node": "ours"}) == shown
        assert [line.action for line in await store.audit(Position(0))] == ["node.limit"]

    tell(story)


def test_several_at_once_are_taken_by_one_of_three(mongo_url: Callable[[], str]) -> None:
    async def run(url: str) -> None:
        async with open_both(url) as (first, database), open_both(url) as (second, _):
            place = await make_queue(database)
            await look(first)
            queue, nodes = await queue_of(first), (await first.node("one"), await second.node("two"))
            for _ in range(60):
                await add_task(database, place)
            stranger, one, two = await asyncio.gather(
                _take_as_stranger(database, place),
                _take_all(first, nodes[0], queue, 10),
                _take_all(second, nodes[1], queue, 10),
            )
            by_node = [found["node"] async for found in database.tasks.find()]
            assert Counter(by_node) == Counter({"other": len(stranger), "one": len(one), "two": len(two)})
            assert len({claimed.id for claimed in (*one, *two)}) == len(one) + len(two)
            assert await database.tasks.count_documents({"ganger.pending": {"$gt": ""}}) == 0

    asyncio.run(run(mongo_url()))


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ({}, (2, 1)),
        ({"nodes_pin": ["two"]}, (0, 3)),
        ({"nodes_ignore": ["two"]}, (3, 0)),
        ({"nodes_pin": ["one"], "nodes_ignore": ["one"]}, (3, 0)),
        ({"maxthreads": 0}, (0, 0)),
        ({"maxthreads": 1}, (1, 1)),
        ({"constructor": "Not::Here"}, (0, 0)),
    ],
)
def test_what_a_stranger_says_of_nodes_is_obeyed(
    tell: Callable[[Story], None], said: dict[str, Any], taken: tuple[int, int]
) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database, **said)
        for _ in range(3):
            await add_task(database, place)
        await look(scene)
        one, two = [await scene.node(name, kinds=(KIND,)) for name in ("one", "two")]
        most = 3 if said else 2
        assert (len(await take(scene, one, most=most)), len(await take(scene, two, most=3))) == taken
        await look(scene)
        ours = said.get("constructor", DEMO) == DEMO
        assert (await database.queues.find_one()).get("count_total") == (3 if ours else None)

    tell(story)
