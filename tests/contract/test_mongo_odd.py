"""Documents that make no sense: they are left alone and named, and everything else goes on."""

import asyncio
import os
import random
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import AsyncMongoClient
from pymongo.errors import DuplicateKeyError

from ganger.core.state import move
from ganger.engine.store import Exchange, Strangers
from ganger.testing.contracts.scene import Scene
from tests.contract.beside import KIND, insert, look, open_both, take
from tests.contract.installation import PLACES, Installation, install, read_all

pytestmark = pytest.mark.slow
COUNT: Final = int(os.environ.get("GANGER_TEST_ODD", "200"))
VALUES: Final[tuple[Any, ...]] = (
    None, True, False, 0, 7, -2, -1, 2.5, -2.0, float("nan"), float("inf"), 1 << 62, "", "x", "3", "-2", "a" * 500, [],
    [-2], [-1], ["x", None], {}, {"a": {"$b": 1}}, {"id": "x"}, {"id": 1 << 40}, {"pending": 3}, ObjectId(), b"bytes",
    Binary(b"x", 128), Decimal128("-2"), Int64(-2), MinKey(), MaxKey(), Regex("a"), Timestamp(1, 1),
    datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC), "\u0000\ud7ff",
)  # fmt: skip


@pytest.fixture(params=PLACES)
def disbatch(request: pytest.FixtureRequest) -> Installation:
    return install(request)


async def take_all(scene: Scene, name: str = "mig02") -> list[Any]:
    """What a node is given of every queue, and settles, until there is nothing more."""
    node = await scene.node(name, kinds=(KIND,))
    taken: list[Any] = []
    while True:
        queues = [queue.id for queue in (await scene.store.directory()).queues]
        lot = [one for queue in queues for one in await take(scene, node, queue, 50)]
        if not lot:
            return taken
        taken += lot
        await scene.store.exchange(Exchange(tuple(move(one.id, "succeed", one.fence) for one in lot)))


@pytest.mark.parametrize("field", ["status", "ganger"])
def test_an_odd_task_is_left_alone_and_the_others_run(disbatch: Installation, field: str) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database)
        values: tuple[Any, ...] = (
            (None, "text", [-2], "-2") if field == "status" else ("x", 7, None, [{}], {"id": "x"}, {"note": 1})
        )
        odd = [await disbatch.add_task(database, place, **{field: value}) for value in values]
        good = [await disbatch.add_task(database, place) for _ in range(3)]
        before = [await database.tasks.find_one({"_id": task}) for task in odd]
        await look(scene)
        assert len(await take_all(scene)) == len(good)
        await look(scene)
        assert [await database.tasks.find_one({"_id": task}) for task in odd] == before
        assert await database.tasks.count_documents({"status": 1}) == len(good)
        assert isinstance(scene.store, Strangers)
        assert {one.id for one in await scene.store.list_odd(100)} == {str(task) for task in odd}
        (counts,), _ = await scene.store.counts()
        assert counts.by_status[1] == len(good)

    disbatch.tell(story)


@pytest.mark.parametrize("limit", ["3", 3.0, " 3 "])
def test_a_text_that_is_a_number_is_that_number(disbatch: Installation, limit: Any) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await disbatch.make_queue(database, limit=limit)
        for _ in range(5):
            await disbatch.add_task(database, place)
        await insert(database.nodes, {"node": "mig03", "maxthreads": "2"})
        await look(scene)
        one, two = await scene.node("mig02", kinds=(KIND,)), await scene.node("mig03", kinds=(KIND,))
        assert (len(await take(scene, one)), len(await take(scene, two))) == ((3, 0) if disbatch.is_later else (3, 2))
        assert (await database.nodes.find_one({"node": "mig03"}))["maxthreads"] == "2"

    disbatch.tell(story)


@pytest.mark.parametrize(
    "fields",
    [{"word": 7}, {"word": [KIND]}, {"word": None}, {"word": ""}, {"word": "Ganger"}, {"limit": 2.5}, {"limit": "many"},
     {"limit": -1}, {"name": None}, {"nodes_pin": "mig02"}, {"ganger": "x"}],
)  # fmt: skip
def test_an_odd_queue_is_ignored_and_nothing_of_it_is_run(disbatch: Installation, fields: dict[str, Any]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        words = ("plugin", "threads") if disbatch.is_later else ("constructor", "maxthreads")
        names = {"word": words[0], "limit": words[1]}
        said = {"name": "odd", **{names.get(name, name): value for name, value in fields.items()}}
        place = await disbatch.make_queue(database, **said)
        params = {words_of(disbatch): {"argv": ["touch", "/never"]}}
        await disbatch.add_task(database, place, **params)
        await disbatch.add_task(database, await disbatch.make_queue(database))
        before = await read_all(database)
        await look(scene)
        assert [one.kind for one in await take_all(scene)] == [KIND]
        everything = await scene.node("everything")
        queues = [queue.id for queue in (await scene.store.directory()).queues]
        assert [await take(scene, everything, queue) for queue in queues] == [[]]
        after = await read_all(database)
        assert [after[name][0] for name in ("queues", "tasks")] == [before[name][0] for name in ("queues", "tasks")]
        assert isinstance(scene.store, Strangers)
        assert [one.collection for one in await scene.store.list_odd(100)] == ["queues"]

    disbatch.tell(story)


def test_why_one_document_is_left_alone_is_told(disbatch: Installation) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place, limit = await disbatch.make_queue(database), "threads" if disbatch.is_later else "maxthreads"
        bad = await disbatch.make_queue(database, "bad", limit=2.5)
        good = await disbatch.add_task(database, place)
        odd = await disbatch.add_task(database, place, status="x")
        lost, homeless = await disbatch.add_task(database, bad), await disbatch.add_task(database, ObjectId())
        assert isinstance(scene.store, Strangers)
        told = [
            await scene.store.find_odd(str(id)) for id in (good, place, ObjectId(), "no id", odd, bad, lost, homeless)
        ]
        assert told[:4] == [None] * 4
        assert [(one.collection, one.id) for one in told[4:] if one] == [
            ("tasks", str(odd)), ("queues", str(bad)), ("tasks", str(lost)), ("tasks", str(homeless)),
        ]  # fmt: skip
        said = [one.what for one in told[4:] if one]
        assert said[:2] == ["its status is 'x'", f"its {limit} is odd: 2.5 is no number of tasks"]
        assert (said[1] in said[2], said[3].endswith("which is not there")) == (True, True)

    disbatch.tell(story)


def words_of(disbatch: Installation) -> str:
    return "params" if disbatch.is_later else "parameters"


@pytest.mark.parametrize("seed", range(2))
def test_whatever_lies_there_the_good_ones_run(disbatch: Installation, seed: int) -> None:
    async def story(scene: Scene, database: Any) -> None:
        chance = random.Random(seed)
        place = await disbatch.make_queue(database)
        word = "plugin" if disbatch.is_later else "constructor"
        sound = {word: KIND.removeprefix("plugin:"), "name": "odd"}
        good = []
        for n in range(COUNT):
            with suppress(DuplicateKeyError):
                await _add_odd_task(disbatch, database, place, chance)
            queue = {
                **sound,
                "name": f"odd{n}",
                **_mangle(chance, word, "name", "maxthreads", "threads", "sort", "ganger"),
            }
            with suppress(DuplicateKeyError):
                await insert(database.queues, queue)
            name = {"node": f"odd{n}", **_mangle(chance, "timestamp", "maxthreads", "queues", "node", "ganger")}
            with suppress(DuplicateKeyError):
                await insert(database.nodes, name)
            if n % 10 == 0:
                good.append(await disbatch.add_task(database, place))
                await look(scene)
        before = {str(task["_id"]): task for task in await database.tasks.find().to_list()}
        await take_all(scene)
        for _ in range(3):
            await look(scene)
        ended = [str(task["_id"]) for task in await database.tasks.find({"status": 1, "node": "mig02"}).to_list()]
        assert set(map(str, good)) <= set(ended)
        untouched = [task for task in await database.tasks.find().to_list() if str(task["_id"]) not in ended]
        assert repr(untouched) == repr([before[str(task["_id"])] for task in untouched])
        assert isinstance(scene.store, Strangers)
        assert await scene.store.list_odd(10_000)
        assert await scene.store.strangers()
        await scene.store.counts()

    disbatch.tell(story)


async def _add_odd_task(disbatch: Installation, database: Any, place: ObjectId, chance: random.Random) -> None:
    names = ("status", "node", "queue", "ctime", "mtime", "stdout", "stderr", "ganger", words_of(disbatch), "_id", "x")
    task = {**disbatch.word_task(place), **_mangle(chance, *names)}
    if isinstance(task.get("_id"), list | Regex) or chance.random() < 0.9:
        task.pop("_id", None)
    await database.tasks.replace_one({"_id": task.get("_id", ObjectId())}, task, upsert=True)


def _mangle(chance: random.Random, *names: str) -> dict[str, Any]:
    return {name: chance.choice(VALUES) for name in chance.sample(names, chance.choice((1, 1, 2, 3)))}


def test_two_nodes_without_a_name_keep_nobody_from_beginning(disbatch: Installation) -> None:
    async def run() -> None:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(disbatch.url)
        try:
            nodes = client.get_default_database().nodes
            await nodes.drop_indexes()
            await nodes.insert_many([{"node": None}, {"timestamp": 7}])
        finally:
            await client.close()
        async with open_both(disbatch.url, disbatch.dialect) as (scene, database):
            await scene.node("mig02")
            assert await database.nodes.count_documents({"node": "mig02"}) == 1
            await database.nodes.drop_indexes()

    asyncio.run(run())
