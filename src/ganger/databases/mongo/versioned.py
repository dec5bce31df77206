"""One collection of documents that are each changed by themselves, on the condition of their version.

Unlike the steps of a store this needs no journal of ours: MongoDB changes one document atomically. A change is durable
on a majority when it is answered. Nothing is sent twice: whoever gets no answer does not know.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pymongo import AsyncMongoClient, ReturnDocument
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from ganger.core.errors import GangerError, StoreClosed, StoreError
from ganger.databases.mongo.address import read_address
from ganger.databases.mongo.documents import CODEC
from ganger.databases.mongo.draft import Doc
from ganger.databases.mongo.errors import translate
from ganger.databases.mongo.journal import SAFE

_SELECTION: Final = 2_000
_ANSWER: Final = 10_000
_AT: Final = "at"
_VERSION: Final = "version"
_WRITTEN: Final = {"_id": 0, _VERSION: 1, _AT: "$$NOW"}


class Found(NamedTuple):
    """A document without what is ours in it, its version, and the server's clock."""

    fields: Doc
    version: tuple[int, int]
    at: int


class Odd(NamedTuple):
    """Something lies there that has no version."""

    at: int


class VersionedCollection:
    """The documents of a collection; a second one counts those that were made."""

    def __init__(self, url: str, collection: str) -> None:
        address = read_address(url)
        self._client: AsyncMongoClient[Doc] = AsyncMongoClient(
            address.url,
            appname="ganger",
            retryWrites=False,
            serverSelectionTimeoutMS=_SELECTION,
            socketTimeoutMS=_ANSWER,
        )
        database = self._client.get_database(address.database, codec_options=CODEC, write_concern=SAFE)
        self._documents = database.get_collection(collection, read_concern=ReadConcern("majority"))
        self._terms = database[f"{collection}_terms"]
        self._database = database
        self._closed = False

    async def close(self) -> None:
        self._closed = True
        await self._client.close()

    def _translate(self, error: Exception, doing: str) -> GangerError:
        return StoreClosed("the documents are closed: open them again") if self._closed else translate(error, doing)

    async def now(self) -> int:
        """The server's clock, in milliseconds since 1970."""
        try:
            return int((await self._database.command("hello", codec_options=CODEC))["localTime"])
        except PyMongoError as error:
            raise self._translate(error, "asking for the time") from error

    async def find(self, name: str) -> Found | Odd | None:
        try:
            rows = await self._documents.aggregate([{"$match": {"_id": name}}, {"$set": {_AT: "$$NOW"}}])
            found = await rows.to_list(1)
        except PyMongoError as error:
            raise self._translate(error, "reading a document") from error
        return _read(found[0]) if found else None

    async def make(self, name: str, fields: Mapping[str, Any]) -> tuple[tuple[int, int], int] | None:
        """Make the document: its version, and the server's clock. None if there is one."""
        try:
            counted = await self._terms.find_one_and_update(
                {"_id": "last"}, {"$inc": {"term": 1}}, upsert=True, return_document=ReturnDocument.AFTER
            )
            document = {**fields, _VERSION: {"term": _read_term(counted), "number": 1}}
            made = await self._documents.find_one_and_replace(
                {"_id": name, _VERSION: _NEVER},
                document,
                projection=_WRITTEN,
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        except DuplicateKeyError:
            return None
        except Exception as error:
            raise self._translate(error, "making a document") from error
        return _read_written(made)

    async def replace(
        self, name: str, fields: Mapping[str, Any], version: tuple[int, int]
    ) -> tuple[tuple[int, int], int] | None:
        """The same for a document that has this version; None if there is no such."""
        document = {**fields, _VERSION: {"term": version[0], "number": version[1] + 1}}
        try:
            made = await self._documents.find_one_and_replace(
                _with_version(name, version), document, projection=_WRITTEN, return_document=ReturnDocument.AFTER
            )
        except Exception as error:
            raise self._translate(error, "writing a document") from error
        return None if made is None else _read_written(made)

    async def remove(self, name: str, version: tuple[int, int]) -> bool:
        try:
            return (await self._documents.delete_one(_with_version(name, version))).deleted_count == 1
        except PyMongoError as error:
            raise self._translate(error, "removing a document") from error

    async def list(self, first: str, beyond: str, fields: Sequence[str]) -> list[tuple[str, Found]]:
        """Documents with names from `first` up to `beyond`, with these fields; those without a version are left out."""
        wanted = {**dict.fromkeys([*fields, _VERSION], 1), _AT: "$$NOW"}
        try:
            rows = self._documents.find({"_id": {"$gte": first, "$lt": beyond}}, wanted).sort("_id", 1)
            documents = await rows.to_list()
        except (PyMongoError, OperationFailure) as error:
            raise self._translate(error, "listing documents") from error
        return [(row["_id"], found) for row in documents if isinstance(found := _read(row), Found)]


_NEVER: Final = "there is no such version"


def _with_version(name: str, version: tuple[int, int]) -> Doc:
    return {"_id": name, "version.term": version[0], "version.number": version[1]}


def _read(row: Doc) -> Found | Odd:
    version = row.get(_VERSION)
    at = int(row[_AT])
    if not isinstance(version, dict) or not all(type(version.get(part)) is int for part in ("term", "number")):
        return Odd(at)
    fields = {name: value for name, value in row.items() if name not in ("_id", _VERSION, _AT)}
    return Found(fields, (version["term"], version["number"]), at)


def _read_written(row: Doc | None) -> tuple[tuple[int, int], int]:
    if row is None:
        raise StoreError("MongoDB stored a document and did not show it: please report it")
    return (row[_VERSION]["term"], row[_VERSION]["number"]), int(row[_AT])


def _read_term(row: Doc | None) -> int:
    if row is None or type(row.get("term")) is not int:
        raise StoreError("the counter of documents that were made is no number any more: restore it from a copy")
    return int(row["term"])
