"""A scenario played on the memory store and on SQLite, with the clock in the test's hands on both."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing.clock import FakeClock, SeededEntropy
from tests.unit.engine.stage import DEADLINE, Stage, play

Scenario = Callable[[Stage], Awaitable[None]]
Play = Callable[[Scenario], None]
STORES = ["memory", "sqlite"]


def play_on(store: str, folder: Path) -> Play:
    """How a scenario is played on the store of this name."""
    return play if store == "memory" else lambda scenario: _play_sqlite(scenario, folder)


def _play_sqlite(scenario: Scenario, folder: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        store = await SqliteStore.open(folder / "ganger.db", clock, SeededEntropy(3))
        try:
            async with asyncio.timeout(DEADLINE), Stage(clock=clock, store=store) as stage:
                stage.fake = clock
                await scenario(stage)
        finally:
            await store.close()

    asyncio.run(run())
