"""Following the facts: in order, each once, from any place, and without holding more than a page."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

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


def test_the_end_is_the_position_of_the_newest_event() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(3)
        end = await find_end(stage.store)
        assert await stage.store.events(end) == []
        assert [event.position for event in await stage.store.events(Position(end - 1))] == [end]

    play(scenario)
