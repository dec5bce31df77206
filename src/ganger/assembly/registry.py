"""From a URL to a part: the only file that names concrete stores and blobs.

What only some need, and what takes long to load, is loaded here when it is wanted.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from ganger.assembly.location import is_remote, locate_own
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
from ganger.runtime.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from ganger.assembly.otel import OpenTelemetry
    from ganger.assembly.remote.engine import RemoteEngine
    from ganger.assembly.remote.source import RemoteSource
    from ganger.engine.stores.postgres import PostgresStore
    from ganger.node.options import NodeOptions

_STORES: Final = "use sqlite:<path>, postgresql://<user>@<host>/<database> or memory:"


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
    found = locate_own(settings)
    async with AsyncExitStack() as stack:
        match scheme:
            case "memory":
                yield Parts(MemoryStore(clock, entropy), MemoryBlobs(clock), clock, entropy)
            case "sqlite" if found is not None:
                store = await SqliteStore.open(found.database, clock, entropy, rank=rank)
                stack.push_async_callback(store.close)
                blobs = await FileBlobs.open(found.blobs, clock, entropy)
                yield Parts(store, blobs, clock, entropy)
            case "postgresql" | "postgres" if found is not None:
                served = await _open_postgres(settings.store, clock, entropy)
                stack.push_async_callback(served.close)
                yield Parts(served, await FileBlobs.open(found.blobs, clock, entropy), clock, entropy)
            case _ if is_remote(settings):
                said = "this needs the store itself, and its address is that of a server: do it on the server's machine"
                raise BadInput(f"{said}, with --store sqlite:<path>", store=settings.store)
            case _:
                raise BadInput(f"no store is called {scheme!r}; {_STORES}", store=settings.store)


def load_exporter() -> "OpenTelemetry":
    """What sends spans; BadInput if it is not installed."""
    try:
        from ganger.assembly.otel import open_exporter
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise BadInput("traces need OpenTelemetry: pip install 'ganger[otel]'", field="traces") from None
    return open_exporter()


async def _open_postgres(url: str, clock: Clock, entropy: Entropy) -> "PostgresStore":
    try:
        from ganger.engine.stores.postgres import PostgresStore
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        raise BadInput("a PostgreSQL store needs its driver: pip install 'ganger[postgres]'") from None
    return await PostgresStore.open(url, clock, entropy)


def open_far(settings: Settings, telemetry: Telemetry = SILENT) -> "AbstractAsyncContextManager[RemoteEngine]":
    """The engine behind the server that the settings name."""
    from ganger.assembly.remote.opening import open_remote

    return open_remote(settings, telemetry=telemetry)


def make_far_source(
    engine: "RemoteEngine", clock: Clock, options: "NodeOptions", has_plugin: Callable[[str], bool]
) -> "RemoteSource":
    """Where a node gets the tasks of an engine behind a server."""
    from ganger.assembly.remote.source import RemoteSource

    return RemoteSource(engine, clock, allowed=options.kinds, ignore=options.ignore, has_plugin=has_plugin)
