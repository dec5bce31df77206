"""A value in pages of one version, and everything below a task."""

import asyncio
import hashlib

import pytest

from ganger.assembly.embedded import open_engine
from ganger.core.errors import BadInput, StalePage, TaskNotFound
from ganger.core.event import Event
from ganger.core.graph import Edge
from ganger.core.ids import Position, TaskId
from ganger.core.task import NewTask
from ganger.engine.descent import Descent
from ganger.engine.engine import Engine


async def add(engine: Engine, *parents: int) -> TaskId:
    queue = await engine.queues.ensure("q", by="me")
    made = await engine.submit([NewTask(queue.id, "command", parents=tuple(Edge(parent) for parent in parents))])
    return made.ids[0]


@pytest.mark.parametrize("size", [10, 700_000])
def test_pages_are_of_one_version(size: int) -> None:
    async def tell() -> None:
        async with open_engine("memory:", upkeep=False) as engine:
            task, content = await add(engine), bytes(range(256)) * (size // 256 + 1)
            await engine.put_data(task, "k", content)
            first = await engine.read_page(task, "k", 0, 5)
            assert (first.body, first.size) == (content[:5], len(content))
            assert first.version == hashlib.sha256(content).hexdigest()
            assert (await engine.read_page(task, "k", 5, 5, first.version)).body == content[5:10]
            await engine.put_data(task, "k", b"other")
            with pytest.raises(StalePage):
                await engine.read_page(task, "k", 10, 5, first.version)
            assert (await engine.read_page(task, "nothing")).version is None
            assert (await engine.read_page(task, "k", 99)).body == b""

    asyncio.run(tell())


def test_a_task_is_born_with_large_data() -> None:
    async def tell() -> None:
        async with open_engine("memory:", upkeep=False) as engine:
            queue = await engine.queues.ensure("q", by="me")
            content = b"x" * 700_000
            made = await engine.submit([NewTask(queue.id, "command")], data=[(0, "k", content), (0, "s", b"y")])
            assert (await engine.read_data(made.ids[0], "k", 0, 1 << 20)).body == content
            assert (await engine.read_data(made.ids[0], "s")).body == b"y"
            with pytest.raises(BadInput):
                await engine.submit([NewTask(queue.id, "command")], data=[(0, "spec", b"z")])

    asyncio.run(tell())


async def follow(engine: Engine, descent: Descent, after: int) -> tuple[set[int], int]:
    """The tasks that the events behind a position tell of, as far as they are below the root."""
    events: list[Event] = await engine.events(Position(after))
    seen = [await descent.narrow(event) for event in events]
    return {entry.task for event in seen if event is not None for entry in event.entries}, events[-1].position


def test_what_happens_below_a_root_is_seen_and_nothing_else() -> None:
    async def tell() -> None:
        async with open_engine("memory:", upkeep=False) as engine:
            root, stranger = await add(engine), await add(engine)
            child = await add(engine, root)
            descent = Descent(engine.store, root)
            await descent.open()
            seen, end = await follow(engine, descent, 0)
            assert seen == {root, child}
            grandchild = await add(engine, child, stranger)
            await add(engine, stranger)
            seen, end = await follow(engine, descent, end)
            assert seen == {grandchild}
            late = await add(engine)
            await engine.link(late, grandchild, by="me")
            seen, end = await follow(engine, descent, end)
            assert seen == {late}

    asyncio.run(tell())


def test_a_graph_that_is_too_large_is_not_followed() -> None:
    async def tell() -> None:
        async with open_engine("memory:", upkeep=False) as engine:
            root = await add(engine)
            for _ in range(5):
                await add(engine, root)
            with pytest.raises(BadInput, match="queue"):
                await Descent(engine.store, root, most=5).open()
            with pytest.raises(TaskNotFound):
                await Descent(engine.store, TaskId(999)).open()

    asyncio.run(tell())
