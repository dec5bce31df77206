"""How much is claimed in queues that strangers share: never more than was asked for, and never above a limit."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import ExecutionTimeout

from ganger.core.ids import NodeId
from ganger.core.queue import Policy
from ganger.core.state import move
from ganger.engine.store import Claim, Exchange
from ganger.engine.stores.mongo import MongoStore
from ganger.testing.contracts.scene import Scene, plain
from tests.contract.beside import DEMO, KIND, insert, look, open_both, queue_of, take
from tests.contract.installation import LONG_AGO, PLACES, Installation, install

pytestmark = pytest.mark.slow


@pytest.fixture(params=PLACES)
def disbatch(request: pytest.FixtureRequest) -> Installation:
    return install(request)


async def claim(scene: Scene, node: NodeId, most: int) -> int:
    """How many of all queues it is given."""
    queues = tuple(queue.id for queue in (await scene.store.directory()).queues)
    return len((await scene.store.exchange(Exchange(claim=Claim(node, queues, most)))).claimed)


def test_no_more_is_leased_than_was_asked_for_however_many_queues_there_are(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        for name in ("one", "two", "three"):
            place = await disbatch.make_queue(database, name)
            for _ in range(4):
                await disbatch.add_task(database, place)
        await look(scene)
        node = await scene.node(kinds=(KIND,))
        assert await claim(scene, node, 4) == 4
        assert await database.tasks.count_documents({"status": -1}) == 4

    disbatch.tell(story)


def test_a_limit_that_disbatch_wrote_into_a_nodes_document_is_kept_and_obeyed(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database)
        for _ in range(9):
            await disbatch.add_task(database, place)
        for name, limit in (("mig01", 4), ("mig02", None)):
            await insert(database.nodes, {"node": name, "timestamp": LONG_AGO, "maxthreads": limit})
        await look(scene)
        limited, free = await scene.node("mig01", kinds=(KIND,)), await scene.node("mig02", kinds=(KIND,), slots=3)
        for _ in range(3):
            await scene.beat(limited)
            await scene.beat(free)
            await look(scene)
        kept = {node["node"]: node["maxthreads"] for node in await database.nodes.find().to_list()}
        assert kept == {"mig01": 4, "mig02": None}
        assert (await claim(scene, limited, 9), await claim(scene, free, 9)) == (4, 3)

    disbatch.tell(story)


def test_what_a_step_settles_makes_room_for_strangers_first(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database, limit=3)
        for _ in range(9):
            await disbatch.add_task(database, place)
        await look(scene)
        node, queue = await scene.node(kinds=(KIND,)), await queue_of(scene)
        held = await take(scene, node)
        settled = tuple(move(one.id, "succeed", one.fence) for one in held)
        # Its claim is made while the documents still say that three are running.
        together = await scene.store.exchange(Exchange(settled, claim=Claim(node, (queue,), 3)))
        assert (len(held), together.refused, together.claimed) == (3, [], [])
        assert await claim(scene, node, 9) == 3
        assert await database.tasks.count_documents({"status": {"$in": [-1, 0]}}) == 3

    disbatch.tell(story)


def test_two_processes_that_take_at_one_moment_do_not_pass_a_limit_over_all_nodes(disbatch: Installation) -> None:
    async def run() -> None:
        async with (
            open_both(disbatch.url, disbatch.dialect) as (one, database),
            open_both(disbatch.url, disbatch.dialect, seed=2) as (two, _),
        ):
            place = await disbatch.make_queue(database, limit=None)
            await database.tasks.insert_many([disbatch.word_task(place) for _ in range(60)])
            await look(one)
            await one.change_queue(await queue_of(one), policy=Policy(plugin=DEMO, max_active=3))
            nodes = await one.node("one", kinds=(KIND,)), await two.node("two", kinds=(KIND,))
            seen = asyncio.create_task(watch_active(disbatch.url, 60))
            await asyncio.gather(run_all(one, nodes[0]), run_all(two, nodes[1]))
            assert 0 < await seen <= 3

    asyncio.run(run())


async def run_all(scene: Scene, node: NodeId) -> None:
    """Take and end tasks until all have ended."""
    queue = await queue_of(scene)
    while (await scene.store.counts())[0][0].by_status.get(1) != 60:
        held = await take(scene, node, queue, 3)
        await scene.store.exchange(Exchange(tuple(move(one.id, "succeed", one.fence) for one in held)))
        scene.clock.advance(1_000)
        await scene.beat(node)


async def watch_active(url: str, count: int) -> int:
    """How many tasks were in hand at one moment at most, until so many have ended.

    After ten milliseconds a server looks anew in the middle of a count, and counts a task twice whose status has
    changed meanwhile: a count that takes as long says nothing.
    """
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url)
    most, tasks = 0, client.get_default_database().tasks
    while await tasks.count_documents({"status": 1}) < count:
        with suppress(ExecutionTimeout):
            most = max(most, await tasks.count_documents({"status": {"$in": [-1, 0]}}, maxTimeMS=8))
    await client.close()
    return most


def test_the_limit_of_a_node_holds_over_its_queues(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        for name in ("one", "two"):
            place = await disbatch.make_queue(database, name, limit=3)
            for _ in range(5):
                await disbatch.add_task(database, place)
        own = await scene.queue("own")
        await scene.submit(*(plain(own) for _ in range(5)))
        await look(scene)
        await insert(database.nodes, {"node": "mig01", "timestamp": LONG_AGO, "maxthreads": 4})
        node = await scene.node("mig01", kinds=(KIND, "command"))
        assert (await claim(scene, node, 20), await claim(scene, node, 20)) == (4, 0)
        await database.nodes.update_one({"node": "mig01"}, {"$set": {"maxthreads": 5}})
        await scene.beat(node)
        assert await claim(scene, node, 20) == 1

    disbatch.tell(story)


def test_who_has_freed_scarce_threads_leaves_them_to_others_first(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database, limit=2)
        for _ in range(9):
            await disbatch.add_task(database, place)
        await look(scene)
        one, two = await scene.node("one", kinds=(KIND,)), await scene.node("two", kinds=(KIND,))
        held = await take(scene, one)
        await scene.store.exchange(Exchange(tuple(move(task.id, "succeed", task.fence) for task in held)))
        assert len(held) == 2
        if disbatch.is_later:
            assert await claim(scene, one, 1) == 0, "it is the other's turn"
            assert await claim(scene, two, 1) == 1
            scene.clock.advance(1_000)
        assert await claim(scene, one, 1) == 1

    disbatch.tell(story)


def test_what_a_dead_process_was_just_taking_is_free_again_in_seconds(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database, limit=1)
        task = await disbatch.add_task(database, place)
        await look(scene)
        before = await database.tasks.find_one({"_id": task})
        node = await scene.node("mig02", kinds=(KIND,))
        mark = {"ganger.pending": "a step of a dead process", "ganger.pended": scene.clock.wall()}
        await database.tasks.update_one({"_id": task}, {"$set": {"node": "mig01", "status": -1, **mark}})
        scene.clock.advance(9_000)
        for _ in range(3):
            await look(scene)
        assert (await database.tasks.find_one({"_id": task}))["status"] == -1, "its process may only be slow"
        scene.clock.advance(2_000)
        for _ in range(2):
            await look(scene)
        assert await database.tasks.find_one({"_id": task}) == before
        assert await claim(scene, node, 1) == 1

    disbatch.tell(story)


def test_a_process_that_was_stopped_while_it_took_a_task_does_not_get_it_when_it_goes_on(
    disbatch: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with (
            open_both(disbatch.url, disbatch.dialect) as (one, database),
            open_both(disbatch.url, disbatch.dialect, seed=2) as (two, _),
        ):
            task = await disbatch.add_task(database, await disbatch.make_queue(database))
            await look(one)
            node = await one.node("mig02", kinds=(KIND,), lease=10**6)
            grabbed, goes_on = stop_before_commit(one, monkeypatch)
            taking = asyncio.create_task(claim(one, node, 1))
            await grabbed.wait()
            two.clock.advance(10**5)
            for _ in range(2):
                await look(two)
            said = {"node": "stranger", "status": 0}
            free = {"_id": task, "status": -2}
            assert (await database.tasks.update_one(free, {"$set": said})).modified_count == 1
            goes_on.set()
            assert await taking == 0
            found = await database.tasks.find_one({"_id": task})
            assert {name: found[name] for name in said} == said

    asyncio.run(run())


def stop_before_commit(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Stop the next step between what it takes and its record, as SIGSTOP would: one is set then, the other ends it."""
    assert isinstance(scene.store, MongoStore)
    journal = scene.store.database._writer.journal
    is_certain, reached, goes_on = journal.is_certain, asyncio.Event(), asyncio.Event()

    async def stop(head: Any) -> bool:
        certain = await is_certain(head)
        reached.set()
        await goes_on.wait()
        return certain

    monkeypatch.setattr(journal, "is_certain", stop)
    return reached, goes_on


def test_nothing_new_is_taken_in_a_place_before_its_orphans_are_written(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database)
        for _ in range(5):
            await disbatch.add_task(database, place)
        await look(scene)
        first = await scene.node("mig01", kinds=(KIND,))
        held = await take(scene, first, most=2)
        scene.clock.advance(31_000)
        again = await scene.node("mig01", kinds=(KIND,))
        assert (len(held), await claim(scene, again, 5)) == (2, 0)
        lost = tuple(move(one.task, "lose_to_orphan", one.fence) for one in await scene.lapse())
        await scene.store.exchange(Exchange(lost))
        assert await database.tasks.count_documents({"status": -6, "node": "mig01"}) == 2
        assert await claim(scene, again, 5) == 3

    disbatch.tell(story)
