"""Whatever is asked of it, the MongoDB store answers as the model does, on a single server and on a replica set."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ganger.core.clock import Clock, Entropy
from ganger.databases.timekeeping import HandedTime
from ganger.engine.store import Store
from ganger.engine.stores.memory import MemoryStore
from ganger.engine.stores.mongo import MongoStore
from ganger.testing.model import StoreMachine
from tests.servers.mongo import wipe_database


def compare(give_url: Callable[[], str], examples: int) -> None:
    url = give_url()

    class MongoAgainstMemory(StoreMachine):
        @asynccontextmanager
        async def open_model(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
            yield MemoryStore(clock, entropy)

        @asynccontextmanager
        async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
            store = await MongoStore.open(url, clock, entropy, timekeeper=HandedTime(clock))
            try:
                yield store
            finally:
                await store.close()
                wipe_database(url)

    bounded = settings(
        max_examples=examples,
        stateful_step_count=25,
        deadline=None,
        phases=[Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(MongoAgainstMemory, settings=bounded)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_two_answer_alike_whatever_is_asked(mongo_url: Callable[[], str]) -> None:
    compare(mongo_url, 15)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_they_do_on_a_replica_set_too(mongo_replica_url: Callable[[], str]) -> None:
    compare(mongo_replica_url, 6)
