"""Whatever is asked of it, the PostgreSQL store answers as the model does."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ganger.core.clock import Clock, Entropy
from ganger.databases.postgres import HandedTime
from ganger.engine.store import Store
from ganger.engine.stores.memory import MemoryStore
from ganger.engine.stores.postgres import PostgresStore
from ganger.testing.model import StoreMachine
from tests.servers.places import find_misplaced
from tests.servers.postgres import drop_schema


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_two_answer_alike_whatever_is_asked(postgres_url: Callable[[], str]) -> None:
    class PostgresAgainstMemory(StoreMachine):
        @asynccontextmanager
        async def open_model(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
            yield MemoryStore(clock, entropy)

        @asynccontextmanager
        async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
            url = postgres_url()
            store = await PostgresStore.open(url, clock, entropy, timekeeper=HandedTime(clock))
            try:
                yield store
                assert await store._read(find_misplaced) == []
            finally:
                await store.close()
                await drop_schema(url)

    bounded = settings(
        max_examples=25,
        stateful_step_count=30,
        deadline=None,
        phases=[Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(PostgresAgainstMemory, settings=bounded)
