"""Wake-ups for those who listen from afar."""

import asyncio

from ganger.engine.stores.memory import MemoryStore
from ganger.faces.v1.engine_reads import Bells
from ganger.testing.clock import FakeClock, SeededEntropy

PATIENCE = 60.0


def test_whoever_heard_as_much_of_another_server_is_told_to_look() -> None:
    async def story() -> None:
        store = MemoryStore(FakeClock(), SeededEntropy(1))
        before, after = Bells(store, 10), Bells(store, 20)
        seen = await before.hear({}, 0)
        async with asyncio.timeout(PATIENCE):
            assert await after.hear(seen, 2 * PATIENCE) == after.counts

    asyncio.run(story())


def test_whoever_has_heard_everything_waits_for_the_next_ring() -> None:
    async def story() -> None:
        bells = Bells(MemoryStore(FakeClock(), SeededEntropy(1)), 10)
        seen = await bells.hear({}, 0)
        assert await bells.hear(seen, 0) == seen
        hearing = asyncio.create_task(bells.hear(seen, PATIENCE))
        await asyncio.sleep(0)
        bells._ring("events")
        assert await hearing == {**seen, "events": 11}

    asyncio.run(story())
