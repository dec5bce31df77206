"""The MongoDB store in the later dialect of Disbatch: its documents have other words, and mean the same."""

from collections.abc import Callable
from typing import Any

import pytest
from bson import ObjectId

from ganger.core.errors import Conflict
from ganger.core.queue import Policy
from ganger.core.state import move
from ganger.core.task import EXIT, Kind
from ganger.engine.store import Datum, Exchange, Note
from ganger.testing.contracts.scene import Scene, append, plain
from tests.contract.beside import DEMO, KIND, Story, insert, look, queue_of, take, tell_story

pytestmark = pytest.mark.slow


@pytest.fixture
def tell(mongo_url: Callable[[], str]) -> Callable[[Story], None]:
    """Run a story with a store and a stranger's own handle of the same database."""
    return lambda story: tell_story(mongo_url(), story, "later")


async def make_queue(database: Any, **fields: Any) -> ObjectId:
    return await insert(database.queues, {"name": "demo", "plugin": DEMO, "threads": None, **fields})


async def add_task(database: Any, queue: ObjectId, **fields: Any) -> ObjectId:
    task = {"queue": queue, "node": None, "status": -2, "params": {"user": "ada"}, "stdout": None, "stderr": None}
    return await insert(database.tasks, {**task, **fields})


def test_our_documents_have_the_later_words_and_no_others(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        queue = await scene.queue("demo", plugin=DEMO, max_active=3, max_per_node=2)
        await scene.submit(plain(queue, kind=KIND, spec=b'{"params":{"user":"ada"}}'))
        await scene.node()
        await look(scene)
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
        await look(scene)
        claimed = await take(scene, await scene.node("mig01", kinds=(KIND,)))
        assert [one.spec for one in claimed] == [b'{"params":{"user":"ada"}}'] * 3
        assert await database.tasks.count_documents({"node": "mig01", "status": -1}) == len(tasks) + 1

    tell(story)


def test_a_task_that_has_ended_is_complete_and_says_what_went_wrong(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        await look(scene)
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


def test_what_its_process_exited_with_is_told(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        await look(scene)
        good, bad, strange = [await add_task(database, place) for _ in range(3)]
        claimed = await take(scene, await scene.node(kinds=(KIND,)))
        for one, code in zip(claimed, (b"0", b"-1", b"no number"), strict=True):
            await scene.write(Note(one.id, one.fence, datum=Datum(EXIT, code, size=len(code))))
        first, *others = claimed
        failed = [move(one.id, "fail", one.fence)._replace(reason="it was killed") for one in others]
        await scene.store.exchange(Exchange((move(first.id, "succeed", first.fence), *failed)))
        ended = [await database.tasks.find_one({"_id": task}) for task in (good, bad, strange)]
        assert [task.get("cmdExit") for task in ended] == [0, -1, None]
        assert [task.get("cmdErr") for task in ended] == [None, "it was killed", "it was killed"]

    tell(story)


def test_so_it_is_of_commands_whose_result_it_is(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        queue = await scene.queue("ours")
        await scene.submit(*(plain(queue, kind=str(kind)) for kind in (Kind.COMMAND, Kind.SHELL, Kind.FUNCTION)))
        good, bad, function = await take(scene, await scene.node(), queue)
        await scene.write(Note(bad.id, bad.fence, datum=Datum("result", b"3", size=1)))
        succeed = [move(one.id, "succeed", one.fence)._replace(result=b"0") for one in (good, function)]
        await scene.store.exchange(Exchange((*succeed, move(bad.id, "fail", bad.fence))))
        ended = [await database.tasks.find_one({"ganger.id": one.id}) for one in (good, bad, function)]
        assert [task.get("cmdExit") for task in ended] == [0, 3, None]

    tell(story)


def test_what_a_stranger_says_of_a_process_is_read_and_kept(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database)
        await look(scene)
        task = await add_task(database, place, mark="theirs")
        await look(scene)
        process = {"complete": True, "cmdExit": 7, "cmdErr": "exit status 7"}
        theirs = {"node": "other", "status": 2, "stderr": "oh", **process}
        await database.tasks.update_one({"_id": task}, {"$set": theirs})
        await look(scene)
        found = await database.tasks.find_one({"_id": task})
        assert {name: found[name] for name in (*theirs, "mark")} == {**theirs, "mark": "theirs"}
        assert "ganger" not in found
        known = (await database.ganger_seen.find_one({"_id": task}))["n"]
        assert (await scene.store.value(known, EXIT)).body == b"7"
        assert (await scene.store.value(known, "out:stderr")).body == b"oh"
        assert (await scene.store.look(known)).keys == ["disbatch", EXIT, "spec"]
        assert (await scene.store.value(known, "disbatch")).body == b'{"mark":"theirs","cmdErr":"exit status 7"}'

    tell(story)


def test_what_a_stranger_says_of_the_limit_counts_over_all_nodes(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        place = await make_queue(database, threads=2)
        for _ in range(5):
            await add_task(database, place)
        await look(scene)
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
        await look(scene)
        task, left = await add_task(database, place), await add_task(database, place)
        mark = {"ganger.pending": "a step of a dead process", "ganger.pended": 0}
        await database.tasks.update_one({"_id": left}, {"$set": {"node": "n", "status": -1, **mark}})
        (claimed,) = await take(scene, await scene.node(kinds=(KIND,)), most=1)
        await scene.settle("release", claimed)
        scene.clock.advance(120_000)
        # At the first look that step might still get in.
        for _ in range(2):
            await look(scene)
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
