"""The machine that compares stores, tried on two models: it finds no difference where there is none."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hypothesis import settings

from ganger.core.clock import Clock, Entropy
from ganger.engine.store import Store
from ganger.engine.stores.memory import MemoryStore
from ganger.testing.model import StoreMachine


class TwoModels(StoreMachine):
    @asynccontextmanager
    async def open_model(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        yield MemoryStore(clock, entropy)

    open_store = open_model


TestTwoModels = TwoModels.TestCase
TestTwoModels.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
