"""From a URL to a part: the only file that names concrete stores, blobs and places for versioned documents.

What only some need, and what takes long to load, is loaded here when it is wanted.
"""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ganger.assembly.location import BUCKET, Location, fill_address, is_remote, locate_own
from ganger.assembly.settings import Settings
from ganger.core.address import strip_password
from ganger.core.clock import Clock, Entropy
from ganger.core.errors import BadInput
from ganger.databases.sqlite import Rank
from ganger.engine.blob import Blobs
from ganger.engine.blobs.files import FileBlobs
from ganger.engine.blobs.memory import MemoryBlobs
from ganger.engine.store import Store
from ganger.engine.stores.memory import MemoryStore
from ganger.engine.stores.sqlite import SqliteStore
from ganger.runtime.telemetry import LOUD, SILENT, Telemetry

if TYPE_CHECKING:
    from ganger.assembly.otel import OpenTelemetry
    from ganger.assembly.remote.engine import RemoteEngine
    from ganger.assembly.remote.source import RemoteSource
    from ganger.client.inbox import Inbox
    from ganger.coordination.backend import Backend
    from ganger.databases.mongo.collections import Collections
    from ganger.engine.stores.mongo import MongoStore
    from ganger.engine.stores.mongo.faces import MongoFaces
    from ganger.engine.stores.postgres import PostgresStore
    from ganger.node.options import NodeOptions

_STORES: Final = "use sqlite:<path>, postgresql://<user>@<host>/<database>, mongodb://<host>/<database> or memory:"


class Parts(NamedTuple):
    """What an engine is put together from."""

    store: Store
    blobs: Blobs
    clock: Clock
    entropy: Entropy


@asynccontextmanager
async def open_parts(
    settings: Settings, clock: Clock, entropy: Entropy, rank: Rank = Rank.CLIENT, telemetry: Telemetry = SILENT
) -> AsyncIterator[Parts]:
    """The store and the blobs that the settings name, closed at the end.

    Damage to the store is told to `telemetry`; where there is none it is said on standard error.
    """
    loud = LOUD if telemetry is SILENT else telemetry
    scheme = settings.store.partition(":")[0]
    found = locate_own(settings)
    async with AsyncExitStack() as stack:
        match scheme:
            case "memory":
                yield Parts(MemoryStore(clock, entropy), MemoryBlobs(clock), clock, entropy)
            case "sqlite" if found is not None:
                store = await SqliteStore.open(found.database, clock, entropy, rank=rank, telemetry=loud)
                stack.push_async_callback(store.close)
                yield Parts(store, await _open_blobs(settings, found, clock, entropy), clock, entropy)
            case "postgresql" | "postgres" if found is not None:
                served = await _open_postgres(settings, clock, entropy)
                stack.push_async_callback(served.close)
                yield Parts(served, await _open_blobs(settings, found, clock, entropy), clock, entropy)
            case "mongodb" | "mongodb+srv" if found is not None:
                shared = await _open_mongo(settings, clock, entropy)
                stack.push_async_callback(shared.close)
                yield Parts(shared, await _open_blobs(settings, found, clock, entropy), clock, entropy)
            case _ if is_remote(settings):
                said = "this needs the store itself, and its address is that of a server: do it on the server's machine"
                raise BadInput(f"{said}, with --store sqlite:<path>", store=strip_password(settings.store))
            case _:
                raise BadInput(f"no store is called {scheme!r}; {_STORES}", store=strip_password(settings.store))


def open_inbox(settings: Settings, connection: Any) -> "Inbox":
    """The inbox of the store in the database of this connection; BadInput if the store is not in PostgreSQL."""
    from ganger.client.inbox import Inbox
    from ganger.runtime.entropy import SystemEntropy

    scheme = settings.store.partition(":")[0]
    if scheme not in ("postgresql", "postgres"):
        said = "a task is written in a transaction of yours only where the store is in the same PostgreSQL database"
        raise BadInput(f"{said}: use an outbox", scheme=scheme)
    with _needing_driver():
        from ganger.databases.postgres.address import read_address
    address = read_address(settings.store)
    return Inbox(address.schema, address.channel, connection, SystemEntropy())


def open_collections(url: str) -> "Collections":
    """The collections of a MongoDB store's own database. Its driver is there: the store was opened with it."""
    from ganger.databases.mongo.collections import Collections

    return Collections(url)


def find_faces(store: Store) -> "MongoFaces | None":
    """Who knows the object ids of a store in which strangers give some; None for other stores."""
    # Whoever has opened such a store has loaded it.
    if "ganger.engine.stores.mongo" not in sys.modules:
        return None
    from ganger.engine.stores.mongo import MongoStore
    from ganger.engine.stores.mongo.faces import MongoFaces

    return MongoFaces(store.database) if isinstance(store, MongoStore) else None


def load_exporter() -> "OpenTelemetry":
    """What sends spans; BadInput if it is not installed."""
    try:
        from ganger.assembly.otel import open_exporter
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "opentelemetry":
            raise
        raise BadInput("traces need OpenTelemetry: pip install 'ganger[otel]'", field="traces") from None
    return open_exporter()


async def open_documents(scheme: str, address: str, clock: Clock, entropy: Entropy) -> "Backend":
    """The versioned documents of this kind at this address; see `assembly/coordination.py`."""
    match scheme:
        case "memory":
            from ganger.coordination.backends.memory import MemoryBackend

            return MemoryBackend(clock)
        case "file":
            from ganger.coordination.backends.file import FileBackend

            return await FileBackend.open(Path(address), clock, entropy)
        case "sqlite":
            from ganger.coordination.backends.sqlite import SqliteBackend

            return await SqliteBackend.open(Path(address), clock)
        case "postgresql":
            with _needing_driver():
                from ganger.coordination.backends.postgres import PostgresBackend
            return await PostgresBackend.open(address, clock, entropy)
        case "mongodb":
            with _needing_mongo():
                from ganger.coordination.backends.mongodb import MongoBackend
            return await MongoBackend.open(address)
        case _:
            from ganger.coordination.backends.elasticsearch import ElasticBackend

            return await ElasticBackend.open(address, clock)


async def _open_blobs(settings: Settings, found: Location, clock: Clock, entropy: Entropy) -> Blobs:
    if not settings.blobs.startswith(BUCKET):
        return await FileBlobs.open(found.blobs, clock, entropy)
    try:
        from ganger.engine.blobs.bucket import BucketPlace
        from ganger.engine.blobs.s3 import S3Blobs
    except ModuleNotFoundError as missing:
        if missing.name != "obstore":
            raise
        raise BadInput("large data in a bucket need obstore: pip install 'ganger[s3]'", field="blobs") from None
    bucket, _, prefix = settings.blobs.removeprefix(BUCKET).partition("/")
    for name in ("blobs", "s3_endpoint"):
        if "@" in getattr(settings, name):
            raise BadInput(f"{name} has a name or a password in it: use s3_key and s3_secret", field=name)
    if not bucket:
        raise BadInput("blobs names no bucket; write s3://bucket or s3://bucket/prefix", field="blobs")
    if any((settings.s3_key, settings.s3_secret)) and not all((settings.s3_key, settings.s3_secret)):
        raise BadInput("s3_key and s3_secret are set together, or neither of them", field="s3_key")
    place = BucketPlace(
        bucket, prefix.strip("/"), settings.s3_endpoint, settings.s3_region, settings.s3_key, settings.s3_secret
    )
    return await S3Blobs.open(place, clock, entropy)


async def _open_postgres(settings: Settings, clock: Clock, entropy: Entropy) -> "PostgresStore":
    with _needing_driver():
        from ganger.engine.stores.postgres import PostgresStore
    read_url = fill_address(settings, settings.read_url) if settings.read_url else None
    return await PostgresStore.open(fill_address(settings, settings.store), clock, entropy, read_url=read_url)


async def _open_mongo(settings: Settings, clock: Clock, entropy: Entropy, dialect: str | None = None) -> "MongoStore":
    with _needing_mongo():
        from ganger.engine.stores.mongo import MongoStore
    return await MongoStore.open(fill_address(settings, settings.store), clock, entropy, dialect=dialect)


async def choose_dialect(settings: Settings, clock: Clock, entropy: Entropy, wanted: str) -> str:
    """Make the store with this dialect of Disbatch, if it is not there; Conflict if it has another."""
    _demand_mongo(settings)
    store = await _open_mongo(settings, clock, entropy, wanted)
    await store.close()
    return str(store.dialect)


async def find_dialect(settings: Settings, entropy: Entropy) -> str | None:
    """Which dialect of Disbatch the store has, or what lies there has; None if there is nothing. It only reads."""
    _demand_mongo(settings)
    with _needing_mongo():
        from ganger.engine.stores.mongo.looking import tell_dialect
    return await tell_dialect(fill_address(settings, settings.store), entropy)


def _demand_mongo(settings: Settings) -> None:
    if settings.store.partition(":")[0] not in ("mongodb", "mongodb+srv"):
        raise BadInput(
            "only a store in MongoDB has a dialect of Disbatch: name one, --store mongodb://<host>/<database>"
        )


@contextmanager
def _needing_mongo() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name not in ("pymongo", "bson"):
            raise
        raise BadInput("a MongoDB store needs its driver: pip install 'ganger[mongodb]'") from None


@contextmanager
def _needing_driver() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        raise BadInput("a PostgreSQL store needs its driver: pip install 'ganger[postgres]'") from None


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
