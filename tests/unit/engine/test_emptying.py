"""How much of a large queue goes at a time: as much as others can wait for."""

from typing import Any

import pytest

from ganger.core.errors import QueueNotFound
from ganger.engine.limits import Limits
from ganger.engine.store import Capabilities, Edits
from ganger.engine.stores.memory import MemoryStore
from ganger.testing.clock import FakeClock, SeededEntropy
from tests.unit.engine.stage import Stage, play


class Distant(MemoryStore):
    """A store as on a server."""

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(distant=True)


def _note_sizes(stage: Stage, pause: int) -> list[int]:
    """How many tasks each step of removals has, which takes so many milliseconds."""
    sizes, edit = [], stage.memory.edit

    async def note(request: Edits) -> Any:
        sizes.append(len(request.edits))
        stage.fake.advance(pause)
        return await edit(request)

    stage.store.edit = note  # type: ignore[attr-defined]
    return sizes


@pytest.mark.parametrize(
    ("pause", "sizes"), [(0, [20, 40, 60]), (30, [20, 20, 20, 20, 20, 20]), (100, [20, 10, 5, 2, *[1] * 83])]
)
def test_more_go_at_a_time_if_a_step_is_short_and_fewer_if_it_is_long(pause: int, sizes: list[int]) -> None:
    async def scenario(stage: Stage) -> None:
        ids = await stage.submit_many(120)
        await stage.engine.cancel(ids, by="ann")
        seen = _note_sizes(stage, pause)

        await stage.engine.queues.delete(stage.queue.id, by="ann")

        assert seen == sizes
        with pytest.raises(QueueNotFound):
            await stage.engine.queues.get(stage.queue.id)

    play(scenario, limits=Limits(queue_at_once=100))


@pytest.mark.parametrize(("tasks", "steps"), [(20, 0), (21, 2)])
def test_where_a_server_has_them_some_dozens_are_much(tasks: int, steps: int) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(tasks)
        seen = _note_sizes(stage, 0)

        await stage.engine.queues.delete(stage.queue.id, by="ann", drop=True)

        assert len(seen) == steps

    clock = FakeClock()
    play(scenario, clock=clock, store=Distant(clock, SeededEntropy(1)))
