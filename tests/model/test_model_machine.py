"""The machine that compares stores, tried on models: it finds no difference where there is none, and else finds it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ganger.core.clock import Clock, Entropy
from ganger.engine.store import Exchange, Exchanged, Store, Tend, Tended
from ganger.engine.stores.memory import MemoryStore
from ganger.testing.model import StoreMachine

SEEKING = settings(max_examples=300, stateful_step_count=40, deadline=None, derandomize=True, phases=[Phase.generate])


class TwoModels(StoreMachine):
    @asynccontextmanager
    async def open_model(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        yield MemoryStore(clock, entropy)

    @asynccontextmanager
    async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
        yield MemoryStore(clock, entropy)


TestTwoModels = TwoModels.TestCase
TestTwoModels.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


class LazyStore(MemoryStore):
    """Says that it promotes, and does not."""

    async def tend(self, step: Tend) -> Tended:
        return Tended(0, False, []) if step.promote else await super().tend(step)


class ForgivingStore(MemoryStore):
    """Lets any holder settle: it takes the fence that is given for the right one."""

    async def exchange(self, request: Exchange) -> Exchanged:
        rows = {move.task: row for move in request.moves if (row := self._tables.rows.get(move.task)) is not None}
        moves = [
            move._replace(fence=rows[move.task].task.fence) if move.fence and move.task in rows else move
            for move in request.moves
        ]
        return await super().exchange(request._replace(moves=tuple(moves)))


@pytest.mark.parametrize("planted", [LazyStore, ForgivingStore])
def test_a_store_that_differs_is_found(planted: type[MemoryStore]) -> None:
    class Seeking(TwoModels):
        @asynccontextmanager
        async def open_store(self, clock: Clock, entropy: Entropy) -> AsyncIterator[Store]:
            yield planted(clock, entropy)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Seeking, settings=SEEKING)
