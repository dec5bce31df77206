"""Whatever is asked of it, the SQLite store answers as the model does."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, settings

from ganger.core.clock import Clock, Entropy
from ganger.engine.store import Store
from ganger.engine.stores.memory import MemoryStore
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing.model import StoreMachine
from tests.folders import folder_in_memory


class SqliteAgainstMemory(StoreMachine):
    @asynccontextmanager
    async def open_model(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        yield MemoryStore(clock, entropy)

    @asynccontextmanager
    async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        with folder_in_memory() as folder:
            store = await SqliteStore.open(folder / "store.db", clock, entropy)
            try:
                yield store
            finally:
                await store.close()


TestSqliteAgainstMemory = pytest.mark.timeout(600)(pytest.mark.slow(SqliteAgainstMemory.TestCase))
TestSqliteAgainstMemory.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
