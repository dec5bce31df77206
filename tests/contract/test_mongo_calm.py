"""Upkeep on a MongoDB store that nobody else writes to: it looks without a step, and still misses nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from ganger.databases.mongo import Database
from ganger.engine.stores.mongo.watch import ASKED, CALM
from ganger.testing.contracts.scene import Scene, plain
from tests.contract.beside import DEMO, Story, insert, look, tell_story

pytestmark = pytest.mark.slow


@pytest.fixture
def tell(mongo_url: Callable[[], str]) -> Callable[[Story], None]:
    return lambda story: tell_story(mongo_url(), story)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What every step is made for, from now on."""
    made: list[str] = []
    run = Database.step

    async def watched(database: Database, work: Any, doing: str) -> Any:
        made.append(doing)
        return await run(database, work, doing)

    monkeypatch.setattr(Database, "step", watched)
    return made


def test_a_look_of_which_nothing_came_saves_the_next_ones_for_a_while(
    tell: Callable[[Story], None], steps: list[str]
) -> None:
    async def story(scene: Scene, _: Any) -> None:
        await scene.queue()
        await look(scene)
        await look(scene)
        steps.clear()

        await look(scene)
        await look(scene)
        assert steps == []

        scene.clock.advance(CALM)
        await look(scene)
        assert steps == ["Tend"]

    tell(story)


def test_a_queue_that_a_stranger_makes_ends_the_calm(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        await look(scene)
        await look(scene)
        await insert(database.queues, {"name": "demo", "constructor": DEMO, "maxthreads": None})
        scene.clock.advance(ASKED)
        await look(scene)

        assert [queue.name for queue in (await scene.store.directory()).queues] == ["demo"]

    tell(story)


def test_a_step_of_ones_own_ends_the_calm(tell: Callable[[Story], None]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        queue = await scene.queue()
        await look(scene)
        await look(scene)
        await scene.submit(plain(queue))
        await look(scene)

        assert (await database.queues.find_one())["count_todo"] == 1

    tell(story)


def test_a_queue_that_strangers_share_is_looked_at_each_time(tell: Callable[[Story], None], steps: list[str]) -> None:
    async def story(scene: Scene, database: Any) -> None:
        await insert(database.queues, {"name": "demo", "constructor": DEMO, "maxthreads": None})
        await look(scene)
        await look(scene)
        steps.clear()

        await look(scene)
        assert steps == ["Tend"]

    tell(story)
