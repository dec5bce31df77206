"""A store in MongoDB, and a stranger's own handle of the same database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from bson import ObjectId
from pymongo import AsyncMongoClient

from ganger.core.ids import NodeId, QueueId
from ganger.core.task import Claimed
from ganger.databases.timekeeping import HandedTime
from ganger.engine.store import Claim, Exchange, Tend
from ganger.engine.stores.mongo import MongoStore
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.contracts.scene import Scene

DEMO: Final = "Disbatch::Plugin::Demo"
KIND: Final = f"plugin:{DEMO}"
Story = Callable[[Scene, Any], Awaitable[None]]


def tell_story(url: str, story: Story, dialect: str | None = None) -> None:
    async def run() -> None:
        async with open_both(url, dialect) as (scene, database):
            await story(scene, database)

    asyncio.run(run())


@asynccontextmanager
async def open_both(url: str, dialect: str | None = None, seed: int = 1) -> AsyncIterator[tuple[Scene, Any]]:
    """Processes that are to be told apart need seeds of their own."""
    clock = FakeClock()
    store = await MongoStore.open(url, clock, SeededEntropy(seed), timekeeper=HandedTime(clock), dialect=dialect)
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(url)
    try:
        yield Scene(store, clock), client.get_default_database()
    finally:
        await store.close()
        await client.close()


async def insert(collection: Any, document: dict[str, Any]) -> ObjectId:
    """A stranger makes something."""
    found: ObjectId = (await collection.insert_one(document)).inserted_id
    return found


async def look(scene: Scene) -> None:
    """Upkeep looks at what strangers did."""
    await scene.store.tend(Tend(release=True))


async def queue_of(scene: Scene) -> QueueId:
    (queue,) = (await scene.store.directory()).queues
    return queue.id


async def take(scene: Scene, node: NodeId, queue: QueueId | None = None, most: int = 10) -> list[Claimed]:
    """Claim tasks of a queue, or of the only one."""
    queues = (await queue_of(scene) if queue is None else queue,)
    return (await scene.store.exchange(Exchange(claim=Claim(node, queues, most)))).claimed
