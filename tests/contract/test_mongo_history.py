"""What lies in a database of Disbatch before Ganger comes: it stays, as it is."""

import asyncio
import os
import time
from typing import Any

import pytest
from bson import BSON, ObjectId
from pymongo import AsyncMongoClient

from ganger.core.state import move
from ganger.engine.store import Exchange, Query, Tend
from ganger.testing.contracts.scene import Scene, append, plain
from tests.contract.beside import KIND, insert, look, open_both, take
from tests.contract.installation import PLACES, Installation, install, read_all

pytestmark = pytest.mark.slow


@pytest.fixture(params=PLACES)
def disbatch(request: pytest.FixtureRequest) -> Installation:
    return install(request)


async def put_file(database: Any, body: bytes) -> ObjectId:
    file = await insert(database["tasks.files"], {"length": len(body), "chunkSize": 255 * 1024})
    await insert(database["tasks.chunks"], {"files_id": file, "n": 0, "data": body})
    return file


def test_old_tasks_of_others_are_removed_only_if_that_is_asked_for_with_their_files(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database)
        file = await put_file(database, b"long ago")
        old = await disbatch.add_task(database, place, status=1, node="mig01", stdout=file, stderr="")
        ran = await disbatch.add_task(database, place)
        await look(scene)
        (claimed,) = await take(scene, await scene.node(kinds=(KIND,)))
        await scene.settle("succeed", claimed)
        before = await read_all(database)
        scene.clock.advance(10**10)
        await scene.store.tend(Tend(prune_before=scene.clock.wall()))
        after = await read_all(database)
        assert {name: after[name] for name in before} == before
        while (await scene.store.tend(Tend(prune_before=scene.clock.wall(), strangers=True))).more:
            pass
        left = {task["_id"] for task in await database.tasks.find().to_list()}
        assert not left & {old, ran}
        assert [await database[name].count_documents({}) for name in ("tasks.files", "tasks.chunks")] == [0, 0]

    disbatch.tell(story)


def test_files_of_our_own_tasks_go_with_them(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        queue = await scene.queue("demo", plugin=KIND.removeprefix("plugin:"))
        await scene.submit(plain(queue, kind=KIND))
        (claimed,) = await take(scene, await scene.node(kinds=(KIND,)))
        await scene.write(append(claimed.id, claimed.fence, 0, b"x" * 600_000))
        await scene.store.exchange(Exchange((move(claimed.id, "succeed", claimed.fence),)))
        assert await database["tasks.chunks"].count_documents({}) > 1
        scene.clock.advance(10**10)
        await scene.store.tend(Tend(prune_before=scene.clock.wall()))
        assert [await database[name].count_documents({}) for name in ("tasks", "tasks.files", "tasks.chunks")] == [
            0
        ] * 3

    disbatch.tell(story)


def test_documents_that_are_not_run_here_do_not_change_by_a_byte(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        ours, other = await disbatch.make_queue(database), await disbatch.make_queue(database, "other")
        word = "plugin" if disbatch.is_later else "constructor"
        await database.queues.update_one({"_id": other}, {"$set": {word: "Not::Here"}})
        for status in (1, 2, -6, -5, -3, -7, -8, -99):
            await disbatch.add_task(database, ours, status=status, node="mig01", extra={"theirs": 1})
        for status in (0, -1):
            await disbatch.add_task(database, ours, status=status, node="mig01")
        for _ in range(3):
            await disbatch.add_task(database, other)
        before = await read_all(database)
        node = await scene.node("mig02", kinds=(KIND,))
        for _ in range(3):
            await look(scene)
            await scene.beat(node)
            assert await take(scene, node, (await scene.store.directory()).queues[0].id) == []
        after = await read_all(database)
        assert after["tasks"] == before["tasks"]
        assert [queue for queue in after["queues"] if queue["_id"] == other] == [
            queue for queue in before["queues"] if queue["_id"] == other
        ]
        page = await scene.store.find(Query(most=100))
        assert sorted(task.status for task in page.tasks) == [-6, -5, -3, -2, -2, -2, -1, 0, 1, 2]
        assert [task.id for task in await scene.store.tasks([task.id for task in page.tasks]) if task] == [
            task.id for task in page.tasks
        ]

    disbatch.tell(story)


def test_what_is_added_to_a_task_that_runs_here_is_small(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database)
        await look(scene)
        task = await disbatch.add_task(database, place)
        before = len(BSON.encode(await database.tasks.find_one({"_id": task})))
        (claimed,) = await take(scene, await scene.node("mig02", kinds=(KIND,)))
        await scene.settle("start", claimed)
        await scene.settle("succeed", claimed)
        assert len(BSON.encode(await database.tasks.find_one({"_id": task}))) - before < 400

    disbatch.tell(story)


def test_what_a_stranger_does_with_its_own_tasks_is_told_in_their_order(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database)
        task = await disbatch.add_task(database, place)
        await look(scene)
        for status in (-1, 0, 1):
            await database.tasks.update_one({"_id": task}, {"$set": {"status": status, "node": "mig01"}})
            await look(scene)
            await look(scene)
        told = [str(event.fact) for event in await scene.events() if event.entries]
        assert told == ["submitted", "claimed", "started", "settled"]
        await database.tasks.delete_one({"_id": task})
        await disbatch.add_task(database, place)
        await look(scene)
        assert [one.status for one in (await scene.store.find(Query())).tasks] == [-2]

    disbatch.tell(story)


def test_work_is_taken_before_the_history_is_known(disbatch: Installation) -> None:
    count = int(os.environ.get("GANGER_TEST_HISTORY", "60_000"))

    async def story(database: Any) -> None:
        for name in ("tasks", "queues", "nodes"):
            await database.drop_collection(name)
        await database.tasks.create_index(["node", "status", "queue"])
        place = await disbatch.make_queue(database)
        lot = [disbatch.word_task(place, status=1, node="mig01") for _ in range(min(count, 10_000))]
        for _ in range(0, count, len(lot)):
            for one in lot:
                one["_id"] = ObjectId()
            await database.tasks.insert_many(lot)
        waiting = await disbatch.add_task(database, place)
        before = len(BSON.encode(await database.tasks.find_one({"status": 1})))
        began = time.monotonic()
        async with open_both(disbatch.url, disbatch.dialect) as (fresh, _):
            (claimed,) = await take(fresh, await fresh.node("mig02", kinds=(KIND,)), most=2)
            assert time.monotonic() - began < 5
            assert claimed.spec == b'{"params":{"user":"ada"}}'
            await take_what_is_ours(fresh, disbatch)
        assert (await database.tasks.find_one({"_id": waiting}))["node"] == "mig02"
        assert len(BSON.encode(await database.tasks.find_one({"status": 1}))) == before

    async def run() -> None:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(disbatch.url)
        try:
            await story(client.get_default_database())
        finally:
            await client.close()

    asyncio.run(run())


async def take_what_is_ours(scene: Scene, disbatch: Installation) -> None:
    """Which comes when the indexes are made, and with it upkeep."""
    queue = await scene.queue("own")
    (task,) = await scene.submit(plain(queue))
    node = await scene.node("mig03")
    async with asyncio.timeout(300):
        while not (claimed := await take(scene, node, queue)):
            pass
    assert [one.id for one in claimed] == [task]
    await look(scene)
    assert len((await scene.store.find(Query(statuses=(1,), most=10))).tasks) == 10


def test_what_a_task_printed_is_always_there_for_strangers(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database)
        await look(scene)
        silent, loud = [await disbatch.add_task(database, place) for _ in range(2)]
        first, second = await take(scene, await scene.node(kinds=(KIND,)))
        await scene.write(append(second.id, second.fence, 0, b"x" * 70_000))
        for one in (first, second):
            await scene.store.exchange(Exchange((move(one.id, "succeed", one.fence),)))
        quiet, long = [await database.tasks.find_one({"_id": task}) for task in (silent, loud)]
        assert (quiet["stdout"], quiet["stderr"], long["stderr"]) == ("", "", "")
        assert (await database["tasks.files"].find_one({"_id": long["stdout"]}))["length"] == 70_000

    disbatch.tell(story)
