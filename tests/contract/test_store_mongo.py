"""The MongoDB store keeps the contract, on a server of its own and on a replica set."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from ganger.core.clock import Clock, Entropy
from ganger.databases.timekeeping import HandedTime
from ganger.engine.store import Store
from ganger.engine.stores.mongo import MongoStore
from ganger.testing.contracts.store import StoreConformance


class _Conformance(StoreConformance):
    url: str

    @asynccontextmanager
    async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        store = await MongoStore.open(self.url, clock, entropy, timekeeper=HandedTime(clock))
        try:
            yield store
        finally:
            await store.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestMongoStoreStandalone(_Conformance):
    @pytest.fixture(autouse=True)
    def _database(self, mongo_url: Callable[[], str]) -> None:
        self.url = mongo_url()


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestMongoStoreReplicaSet(_Conformance):
    @pytest.fixture(autouse=True)
    def _database(self, mongo_replica_url: Callable[[], str]) -> None:
        self.url = mongo_replica_url()
