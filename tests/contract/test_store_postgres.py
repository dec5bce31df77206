"""The PostgreSQL store keeps the contract."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from ganger.core.clock import Clock, Entropy
from ganger.databases.postgres import HandedTime
from ganger.engine.store import Store
from ganger.engine.stores.postgres import PostgresStore
from ganger.testing.contracts.store import StoreConformance


@pytest.mark.slow
class TestPostgresStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _schema(self, postgres_url: Callable[[], str]) -> None:
        self.url = postgres_url()

    @asynccontextmanager
    async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        store = await PostgresStore.open(self.url, clock, entropy, timekeeper=HandedTime(clock))
        try:
            yield store
        finally:
            await store.close()
