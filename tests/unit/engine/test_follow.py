"""Following the facts: in order, each once, from any place, and without holding more than a page."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ganger.core.event import Event, Fact
from ganger.core.ids import Position
from ganger.core.outcome import Succeed
from ganger.engine.follow import PAGE, Wanted, find_end
from tests.unit.engine.stage import Stage, play, settle_down


async def take(events: AsyncGenerator[Event, None], count: int) -> list[Event]:
    return [await anext(events) for _ in range(count)]


def test_every_event_is_seen_once_and_in_order_by_one_who_starts_at_the_beginning() -> None:
    async def scenario(stage: Stage) -> None:
        for _ in range(2 * PAGE):
            await stage.submit_many(1)
        async with aclosing(stage.engine.subscribe(Position(0))) as events:
            seen = await take(events, 2 * PAGE + 2)
        positions = [event.position for event in seen]
        assert positions == sorted(set(positions))
        assert [event.fact for event in seen[-2:]] == [Fact.SUBMITTED, Fact.SUBMITTED]

    play(scenario)


def test_one_who_starts_now_sees_what_comes_and_is_woken_by_it() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(5)
        async with aclosing(stage.engine.subscribe()) as events:
            next_one = asyncio.ensure_future(anext(events))
            await settle_down()
            assert not next_one.done()
            (task,) = await stage.submit_many(1)
            assert [entry.task for entry in (await next_one).entries] == [task]

    play(scenario)


def test_one_who_comes_back_goes_on_where_it_was() -> None:
    async def scenario(stage: Stage) -> None:
        for _ in range(6):
            await stage.submit_many(1)
        async with aclosing(stage.engine.subscribe(Position(0))) as events:
            first = await take(events, 4)
        async with aclosing(stage.engine.subscribe(first[-1].position)) as events:
            second = await take(events, 3)
        async with aclosing(stage.engine.subscribe(Position(0))) as events:
            assert await take(events, 7) == first + second

    play(scenario)


def test_a_filter_leaves_out_what_is_not_wanted() -> None:
    async def scenario(stage: Stage) -> None:
        first, second = await stage.submit_many(2)
        await stage.engine.settle([(one, Succeed()) for one in await stage.take(2)])
        wanted = Wanted(frozenset({Fact.SETTLED}), frozenset({stage.queue.id}), frozenset({second}))
        async with aclosing(stage.engine.subscribe(Position(0), wanted)) as events:
            seen = await anext(events)
        assert seen.fact is Fact.SETTLED
        assert [entry.task for entry in seen.entries] == [second] != [first]

    play(scenario)


def test_a_reader_that_waits_asks_the_store_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        async with aclosing(stage.engine.subscribe()) as events:
            next_one = asyncio.ensure_future(anext(events))
            await settle_down()
            stage.store.asked.clear()
            await settle_down()
            assert not stage.store.asked
            next_one.cancel()
            await asyncio.gather(next_one, return_exceptions=True)

    play(scenario)


def test_a_slow_reader_holds_one_page_however_much_happens() -> None:
    async def scenario(stage: Stage) -> None:
        async with aclosing(stage.engine.subscribe(Position(0))) as events:
            await anext(events)
            stage.store.asked.clear()
            for _ in range(3 * PAGE):
                await stage.submit_many(1)
            assert stage.store.asked["events"] == 0
            await take(events, 3 * PAGE)

    play(scenario)


class Log:
    """Events at given positions, as sparse as pruning may leave them."""

    def __init__(self, positions: list[int]) -> None:
        self.positions = sorted(positions)
        self.looks = 0

    async def events(self, after: Position, most: int = 1_000) -> list[Event]:
        self.looks += 1
        behind = [position for position in self.positions if position > after]
        return [Event(Position(one), 0, Fact.SUBMITTED, 1, 0, ()) for one in behind[:most]]  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.lists(st.integers(1, 1 << 40), unique=True, max_size=30), st.integers(0, 40))
def test_the_end_is_found_in_few_looks_wherever_it_is(positions: list[int], skip: int) -> None:
    log = Log(positions)
    known = Position(([0, *log.positions])[min(skip, len(positions))])

    assert asyncio.run(find_end(log, known)) == max(positions, default=0)  # type: ignore[arg-type]
    assert log.looks <= 90


@pytest.mark.parametrize("count", [0, 1, 2, 1_000])
def test_the_end_of_a_dense_log_is_found(count: int) -> None:
    assert asyncio.run(find_end(Log(list(range(1, count + 1))))) == count  # type: ignore[arg-type]
