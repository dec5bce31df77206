"""Indexes that a store needs: made when it is opened, or meanwhile where that would take long.

A database in which strangers have worked for years has millions of documents, and to index them takes a minute. Work is
not kept waiting for that: it is made in the background, by a client of its own that waits for as long as it takes.
Until then `is_done` is false, and whoever asks what only an index answers quickly may leave that out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from pymongo import ASCENDING, AsyncMongoClient, IndexModel
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import OperationFailure, PyMongoError

from ganger.databases.mongo.address import Address
from ganger.databases.mongo.draft import Doc
from ganger.runtime.telemetry import SILENT, Telemetry

LARGE: Final = 50_000
"""Documents: with so many it takes a while."""
_DUPLICATE: Final = 11_000
_AGAIN: Final = 5.0
"""Seconds after which what failed is tried again."""


class Index(NamedTuple):
    """An index that the store needs: fields in their order, negative ones by a leading minus.

    `urgent`: where it takes a while, this one is made before the others.
    """

    table: str
    fields: tuple[str, ...]
    unique: bool = False
    where: Doc | None = None
    urgent: bool = False

    @property
    def keys(self) -> list[tuple[str, int]]:
        return [(field.removeprefix("-"), -1 if field.startswith("-") else ASCENDING) for field in self.fields]

    def model(self) -> IndexModel:
        only = {} if self.where is None else {"partialFilterExpression": self.where}
        return IndexModel(self.keys, unique=self.unique, **only)


class Indexing:
    """Makes the indexes of a database. Stop it at the end."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._task: asyncio.Task[None] | None = None

    @property
    def is_done(self) -> bool:
        return self._task is None or self._task.done()

    async def make(self, base: AsyncDatabase[Doc], indexes: Sequence[Index], telemetry: Telemetry = SILENT) -> None:
        """Make those of small collections now, and begin with those of large ones."""
        by_table: dict[str, list[Index]] = {}
        for index in indexes:
            by_table.setdefault(index.table, []).append(index)
        missing = {table: await _find_missing(base, table, some) for table, some in by_table.items()}
        large = {table for table, some in missing.items() if some and await _is_large(base, table)}
        await asyncio.gather(*(_make(base, table, some) for table, some in missing.items() if table not in large))
        if large:
            late = {table: missing[table] for table in sorted(large)}
            self._task = asyncio.create_task(self._make_late(late, telemetry), name="mongo indexes")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _make_late(self, late: dict[str, list[Index]], telemetry: Telemetry) -> None:
        client: AsyncMongoClient[Doc] = AsyncMongoClient(self._address.url, appname="ganger-indexes")
        base = client.get_database(self._address.database)
        try:
            for table, some in late.items():
                telemetry.event("indexing", collection=table, count=len(some))
                for lot in (
                    [index for index in some if index.urgent],
                    [index for index in some if not index.urgent],
                ):
                    await _insist(partial(_make, base, table, lot), telemetry)
                telemetry.event("indexed", collection=table, count=len(some))
        finally:
            await client.close()


async def _insist(work: Callable[[], Awaitable[None]], telemetry: Telemetry) -> None:
    while True:
        try:
            await work()
            return
        except PyMongoError as error:
            telemetry.event("indexing_failed", message=str(error))
            await asyncio.sleep(_AGAIN)


async def _is_large(base: AsyncDatabase[Doc], table: str) -> bool:
    return await base[table].estimated_document_count() >= LARGE


async def _find_missing(base: AsyncDatabase[Doc], table: str, indexes: Sequence[Index]) -> list[Index]:
    """Those that are not there. A stranger's index of the same fields serves as well, unique or not."""
    there = [
        (list(index["key"].items()), index.get("partialFilterExpression"))
        async for index in await base[table].list_indexes()
    ]
    keys = [key for key, _ in there]
    return [one for one in indexes if one.keys not in keys or (one.where and (one.keys, one.where) not in there)]


async def _make(base: AsyncDatabase[Doc], table: str, indexes: Sequence[Index]) -> None:
    if not indexes:
        return
    try:
        await base[table].create_indexes([index.model() for index in indexes])
    except OperationFailure as error:
        if error.code != _DUPLICATE:
            raise
        # What strangers wrote there is twice the same: we write nothing twice, with or without the server's word.
        await base[table].create_indexes([index._replace(unique=False).model() for index in indexes])
