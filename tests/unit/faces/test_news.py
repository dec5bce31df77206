"""One reader for all who follow: nobody misses an event or sees one twice, however slow."""

import asyncio
from contextlib import aclosing

import pytest

from ganger.assembly.embedded import open_engine
from ganger.core.errors import StalePage
from ganger.core.ids import Position, QueueId
from ganger.core.task import NewTask
from ganger.engine.engine import Engine
from ganger.faces.http.news import News


async def add(engine: Engine, queue: QueueId, number: int = 1) -> None:
    for _ in range(number):
        await engine.submit([NewTask(queue, "payload")])


async def read(news: News, after: int, until: int) -> list[int]:
    """The positions behind one, up to another."""
    seen: list[int] = []
    async with asyncio.timeout(60), aclosing(news.follow(Position(after))) as pages:
        async for page in pages:
            seen += [event.position for event in page]
            if seen[-1] >= until:
                return seen
    raise AssertionError("it goes on for ever")


@pytest.mark.parametrize("kept", [1, 3, 1_000])
def test_followers_from_anywhere_see_everything_once(kept: int) -> None:
    async def tell() -> None:
        async with open_engine("memory:", upkeep=False) as engine:
            queue = (await engine.queues.ensure("q", by="me")).id
            await add(engine, queue, 5)
            news = News(engine, kept=kept)
            await news.start()
            start = int(news.end)
            following = asyncio.ensure_future(read(news, start, start + 20))
            await add(engine, queue, 20)
            assert await following == list(range(start + 1, start + 21))
            for after in (0, 3, start, start + 7, start + 19):
                assert await read(news, after, start + 20) == list(range(after + 1, start + 21))
            await news.stop()

    asyncio.run(tell())


def test_a_large_event_pushes_the_others_out_and_is_still_read() -> None:
    async def tell() -> None:
        async with open_engine("memory:", upkeep=False) as engine:
            queue = (await engine.queues.ensure("q", by="me")).id
            news = News(engine, entries=100)
            await news.start()
            await add(engine, queue, 2)
            await engine.submit([NewTask(queue, "payload")] * 150)
            end = (await engine.store.directory()).last_event
            assert await read(news, 0, end) == list(range(1, end + 1))
            await news.stop()

    asyncio.run(tell())


def test_a_position_of_another_store_is_stale() -> None:
    async def tell() -> None:
        async with open_engine("memory:", upkeep=False) as engine:
            news = News(engine)
            await news.start()
            assert await news.begin(None) == news.end
            assert await news.begin(Position(0)) == 0
            with pytest.raises(StalePage):
                await news.begin(Position(99))
            await news.stop()

    asyncio.run(tell())
