"""Whatever is asked of it, the PostgreSQL store answers as the model does."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from ganger.core.clock import Clock, Entropy
from ganger.core.queue import Policy
from ganger.databases.postgres import HandedTime
from ganger.engine.store import Store
from ganger.engine.stores.memory import MemoryStore
from ganger.engine.stores.postgres import PostgresStore
from ganger.testing.drafts import Asked, Draft
from ganger.testing.model import StoreMachine
from tests.servers.places import find_misplaced
from tests.servers.postgres import drop_schema
from tests.servers.trips import watch_trips

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
LEAST: Final = 10
PLAIN: Final = Draft(0, "command", 1, 0, (), False, None, None, False, None, None, False)


def make_machine(postgres_url: Callable[[], str]) -> type[StoreMachine]:
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

    return PostgresAgainstMemory


def run(machine: type[StoreMachine], examples: int) -> None:
    bounded = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        phases=[Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=bounded)


def test_the_two_answer_alike_whatever_is_asked(postgres_url: Callable[[], str]) -> None:
    run(make_machine(postgres_url), 25)


def test_they_do_so_where_exchanges_are_made_in_one_round_trip(
    postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In queues without limits, which most exchanges of the other story are not about."""
    made = watch_trips(monkeypatch)

    class OnPlainQueues(make_machine(postgres_url)):  # type: ignore[misc]
        def make_queue(self, policy: Policy, becomes: int | None) -> None:
            super().make_queue(Policy(sort=policy.sort), becomes and None)

        def change_queue(self, pick: int, policy: Policy | None, pause: int | None) -> None:
            super().change_queue(pick, Policy(sort=(policy or Policy()).sort), pause and None)

        @rule(n=st.integers(1, 4), queue=st.integers(0, 1), most=st.integers(1, 4), start=st.booleans())
        def work(self, n: int, queue: int, most: int, start: bool) -> None:
            """Some plain tasks come, and the first node takes what there is, ends it, and takes the next."""
            self.submit([PLAIN._replace(queue=queue)] * n)
            for _ in range(2):
                self.the_two_stores_look_the_same()
                tasks = self.seen["tasks"].items()
                held = [(task, each["fence"]) for task, each in tasks if each["holder"] == 0]
                moves = [self._move(task, "succeed", fence, {"result": b"done"}) for task, fence in held]
                self._exchange(moves, Asked(0, (0, 1), most, start, ()))

    run(OnPlainQueues, 15)
    settled = [request for request in made if request.moves]
    assert len(settled) >= LEAST, "so few were made in one round trip that it proves little"
