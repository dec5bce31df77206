"""How much is claimed in queues that strangers share: never more than was asked for, and never above a limit."""

from typing import Any

import pytest

from ganger.core.ids import NodeId
from ganger.core.state import move
from ganger.engine.store import Claim, Exchange
from ganger.testing.contracts.scene import Scene, plain
from tests.contract.beside import KIND, insert, look, queue_of, take
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
