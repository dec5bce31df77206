"""A MongoDB database: a client, steps that are atomic and durable on any server, reads, wake-ups."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from pymongo import AsyncMongoClient
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import PyMongoError

from ganger.core.clock import Entropy
from ganger.core.errors import StoreClosed
from ganger.databases.listeners import Listeners, Told
from ganger.databases.mongo.address import Address, read_address
from ganger.databases.mongo.documents import CODEC
from ganger.databases.mongo.draft import Doc, Wording
from ganger.databases.mongo.errors import is_lost, translate
from ganger.databases.mongo.indexing import Index, Indexing
from ganger.databases.mongo.journal import PARTS, SAFE
from ganger.databases.mongo.patience import PATIENCE, Patience
from ganger.databases.mongo.session import Session
from ganger.databases.mongo.watching import Watch
from ganger.databases.mongo.writer import Writer
from ganger.runtime.telemetry import SILENT, Telemetry

T = TypeVar("T")
_SELECTION: Final = 2_000
_SOCKET: Final = 30_000
_LAST_READS: Final = 2.0


class Database:
    """A database that any number of processes share, strangers among them."""

    def __init__(self, address: Address, entropy: Entropy, patience: float = PATIENCE) -> None:
        self.address = address
        self._entropy = entropy
        self._patience = patience
        self._client: AsyncMongoClient[Doc] = AsyncMongoClient(
            address.url,
            appname="ganger",
            retryWrites=False,
            serverSelectionTimeoutMS=_SELECTION,
            socketTimeoutMS=_SOCKET,
        )
        self.handle: AsyncDatabase[Doc] = self._client.get_database(
            address.database, codec_options=CODEC, write_concern=SAFE
        )
        self._listeners = Listeners(asyncio.get_running_loop())
        self._writer = Writer(self.handle, entropy, self._tell, patience)
        self._indexing = Indexing(address)
        self._watch: Watch | None = None
        self._reads: set[asyncio.Task[Any]] = set()
        self._server: Any = None
        """The server process whose last step is known to be made."""
        self._closed = False

    @classmethod
    async def open(
        cls,
        url: str,
        entropy: Entropy,
        indexes: Sequence[Index],
        *,
        telemetry: Telemetry = SILENT,
        patience: float = PATIENCE,
        look: Callable[[AsyncDatabase[Doc]], Awaitable[Wording]] | None = None,
    ) -> "Database":
        """Connect, and make what the store needs.

        Before anything is written `look` may refuse the database; it says how that is written which lies there.
        """
        database = cls(read_address(url), entropy, patience)
        try:
            if look is not None:
                database._writer.wording = await look(database.handle)
            await database._writer.journal.begin()
            await database._indexing.make(database.handle, (*indexes, Index(PARTS, ("seal",))), telemetry)
        except Exception as error:
            await database.close()
            raise translate(error, "opening the database") from error
        database._watch = Watch(database.handle, database._listeners, telemetry)
        await database._watch.start()
        return database

    @property
    def is_indexed(self) -> bool:
        """False while the indexes of what others have collected over years are being made."""
        return self._indexing.is_done

    async def close(self) -> None:
        self._closed = True
        if self._watch is not None:
            await self._watch.stop()
        await self._indexing.stop()
        await self._writer.close()
        if self._reads:
            await asyncio.wait(self._reads, timeout=_LAST_READS)
        await self._client.close()

    def listen(self, topics: Iterable[str], told: Told) -> Callable[[], None]:
        return self._listeners.add(topics, told)

    def _tell(self, step: int | None, topics: list[str]) -> None:
        """A step of this process is committed; None if it changed nothing, and so was none."""
        if self._watch is not None and step is not None:
            self._watch.wrote(step, topics)
        self._listeners.tell(topics)

    async def step(self, work: Callable[[Session], Awaitable[T]], doing: str) -> T:
        """Run the work in a step, until that is committed, or refused, or nobody can tell."""
        result: T = await self._writer.run(work, doing)
        return result

    async def read(self, work: Callable[[AsyncDatabase[Doc]], Awaitable[T]], doing: str) -> T:
        """Run reads; each of them sees what was committed before it began.

        What lies in a collection is there because a majority has its record: a plain read shows nothing that may go.
        After a server died, what it has forgotten is made again first.
        """
        if self._closed:
            raise StoreClosed("the store is closed: open it again")
        patience = Patience(self._patience, self._entropy)
        while True:
            try:
                if self._server != self._heard_of():
                    await self._read_apart(self._recover)
                return await self._read_apart(work)
            except PyMongoError as error:
                if not is_lost(error):
                    raise translate(error, doing) from error
                await patience.wait(error, doing)

    def _heard_of(self) -> Any:
        """The server process, as far as the driver has heard of it."""
        servers = self._client.topology_description.server_descriptions().values()
        return [server.topology_version for server in servers if server.is_writable]

    async def _recover(self, _: AsyncDatabase[Doc]) -> None:
        heard = self._heard_of()
        await self._writer.journal.recover()
        self._server = heard

    async def _read_apart(self, work: Callable[[AsyncDatabase[Doc]], Awaitable[T]]) -> T:
        """Read in a task of its own, so that whoever is cancelled goes at once.

        A cancellation that meets the driver while it opens a connection can be lost in there: who had waited for it
        would go on as if nobody had told it to end.
        """
        reading = asyncio.ensure_future(_await(work(self.handle)))
        self._reads.add(reading)
        reading.add_done_callback(self._reads.discard)
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            reading.cancel()
            raise

    async def sequences(self) -> dict[str, int]:
        """How far the sequences are, behind the last step that is applied."""
        return await self.read(lambda _: self._writer.journal.sequences(), "reading")

    def newest_step(self) -> int:
        """The newest step that this process knows of: its own last one, or another's, at most a second later."""
        return 0 if self._watch is None else self._watch.newest()


async def _await(work: Awaitable[T]) -> T:
    return await work
