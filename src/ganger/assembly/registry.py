"""From a URL to a part: the only file that names concrete stores and blobs."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from ganger.assembly.location import locate
from ganger.assembly.settings import Settings
from ganger.core.clock import Clock, Entropy
from ganger.core.errors import BadInput
from ganger.databases.sqlite import Rank
from ganger.engine.blob import Blobs
from ganger.engine.blobs.files import FileBlobs
from ganger.engine.blobs.memory import MemoryBlobs
from ganger.engine.store import Store
from ganger.engine.stores.memory import MemoryStore
from ganger.engine.stores.sqlite import SqliteStore


class Parts(NamedTuple):
    """What an engine is put together from."""

    store: Store
    blobs: Blobs
    clock: Clock
    entropy: Entropy


@asynccontextmanager
async def open_parts(
    settings: Settings, clock: Clock, entropy: Entropy, rank: Rank = Rank.CLIENT
) -> AsyncIterator[Parts]:
    """The store and the blobs that the settings name, closed at the end."""
    scheme = settings.store.partition(":")[0]
    found = locate(settings)
    async with AsyncExitStack() as stack:
        match scheme:
            case "memory":
                yield Parts(MemoryStore(clock, entropy), MemoryBlobs(clock), clock, entropy)
            case "sqlite" if found is not None:
                store = await SqliteStore.open(found.database, clock, entropy, rank=rank)
                stack.push_async_callback(store.close)
                blobs = await FileBlobs.open(found.blobs, clock, entropy)
                yield Parts(store, blobs, clock, entropy)
            case _:
                raise BadInput(f"no store is called {scheme!r}; use sqlite:<path> or memory:", store=settings.store)
