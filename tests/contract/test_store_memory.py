"""The memory store keeps the contract."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ganger.core.clock import Clock, Entropy
from ganger.engine.store import Store
from ganger.engine.stores.memory import MemoryStore
from ganger.testing.contracts.store import StoreConformance


class TestMemoryStore(StoreConformance):
    @asynccontextmanager
    async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        yield MemoryStore(clock, entropy)
