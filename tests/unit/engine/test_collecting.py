"""Blobs that no row names go, the others stay."""

import asyncio
from pathlib import Path

from ganger.core.ids import Fence
from ganger.core.task import NewTask
from ganger.engine.blobs.memory import MemoryBlobs
from ganger.engine.collecting import Collector
from ganger.engine.engine import Engine
from ganger.engine.store import Datum, Note
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing.clock import FakeClock, SeededEntropy

DAY = 24 * 60 * 60 * 1000


def test_what_a_task_names_stays_and_the_rest_goes_after_a_day(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        store, blobs = await SqliteStore.open(tmp_path / "a.db", clock, SeededEntropy(1)), MemoryBlobs(clock)
        engine = Engine(store, clock, SeededEntropy(2), blobs=blobs)
        queue = await engine.queues.create("q", by="test")
        (task,) = (await engine.submit([NewTask(queue.id, "payload")])).ids
        named, lost = await blobs.put(b"named"), await blobs.put(b"lost")
        await engine.write([Note(task, Fence(0), datum=Datum("file", blob=named.hash, size=named.size))])
        collector = Collector(store, clock, blobs)

        assert (await collector.step()).done == 0
        clock.advance(DAY + 1)
        assert (await collector.step()).done == 1
        assert (await blobs.size(named.hash), await blobs.size(lost.hash)) == (5, None)
        await engine.close()
        await store.close()

    asyncio.run(scenario())
