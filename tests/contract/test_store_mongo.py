"""The MongoDB store keeps the contract, on a server of its own and on a replica set, in both dialects of Disbatch.

The later dialect changes tasks, queues and nodes as they are written down; the contracts that read those are run in it.
With GANGER_TEST_DIALECT=later all of them are.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest

from ganger.core.clock import Clock, Entropy
from ganger.databases.timekeeping import HandedTime
from ganger.engine.store import Store
from ganger.engine.stores.mongo import MongoStore
from ganger.testing.contracts.scene import StoreContract
from ganger.testing.contracts.store import StoreConformance
from ganger.testing.contracts.store_limits import LimitsContract
from ganger.testing.contracts.store_queues import QueuesContract
from ganger.testing.contracts.store_settle import SettleContract

DIALECT: Final = os.environ.get("GANGER_TEST_DIALECT", "plain")


class _Mongo(StoreContract):
    url: str
    dialect = DIALECT

    @asynccontextmanager
    async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        store = await MongoStore.open(self.url, clock, entropy, timekeeper=HandedTime(clock), dialect=self.dialect)
        try:
            yield store
        finally:
            await store.close()


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestMongoStoreStandalone(_Mongo, StoreConformance):
    @pytest.fixture(autouse=True)
    def _database(self, mongo_url: Callable[[], str]) -> None:
        self.url = mongo_url()


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestMongoStoreReplicaSet(_Mongo, StoreConformance):
    @pytest.fixture(autouse=True)
    def _database(self, mongo_replica_url: Callable[[], str]) -> None:
        self.url = mongo_replica_url()


@pytest.mark.slow
@pytest.mark.timeout(900)
class TestMongoStoreInTheLaterDialect(_Mongo, QueuesContract, LimitsContract, SettleContract):
    dialect = "later"

    @pytest.fixture(autouse=True)
    def _database(self, mongo_url: Callable[[], str]) -> None:
        self.url = mongo_url()
