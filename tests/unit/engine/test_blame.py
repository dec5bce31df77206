"""Whose fault it was that an attempt did not end: told by the store, decided by the reaper."""

import pytest

from ganger.core.state import Status
from ganger.engine.upkeep import Reaper
from tests.unit.engine.stage import Stage, play


@pytest.mark.parametrize(("leaves", "crashes"), [(True, 0), (False, 1)])
def test_a_started_task_is_blamed_for_a_node_that_died_and_not_for_one_that_left(leaves: bool, crashes: int) -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        taken = await stage.take_one()
        await stage.engine.start([taken.lease])
        if leaves:
            await stage.engine.nodes.leave(stage.node.id, "token of ada")
        else:
            stage.fake.advance(30_001)
        await Reaper(stage.store, stage.clock).step()
        seen = await stage.get(task)
        assert (seen.status, seen.attempts, seen.crashes) == (Status.QUEUED, 0, crashes)

    play(scenario)
