"""The SQLite store keeps the contract."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ganger.core.clock import Clock, Entropy
from ganger.engine.store import Store
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing.contracts.store import StoreConformance


class TestSqliteStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "store.db"

    @asynccontextmanager
    async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        store = await SqliteStore.open(self.path, clock, entropy)
        try:
            yield store
        finally:
            await store.close()
