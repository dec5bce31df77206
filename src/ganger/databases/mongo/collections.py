"""Collections of a database, read by people's filters: by a client of their own, and never for long.

A filter comes from outside and may ask for anything. So it has a limit of time on the server, and connections that the
store does not wait for. What JSON cannot say (ids, dates, numbers of money) becomes a text.
"""

import base64
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from bson import DatetimeMS, ObjectId
from bson.errors import BSONError
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure, PyMongoError

from ganger.core.errors import BadInput
from ganger.databases.mongo.address import read_address
from ganger.databases.mongo.documents import CODEC
from ganger.databases.mongo.draft import Doc
from ganger.databases.mongo.errors import translate

_PATIENCE: Final = 30_000
_MOST_CONNECTIONS: Final = 4
_RESERVED: Final = ("system.", "ganger_")


class Collections:
    """The collections of the database that a URL names. Close it at the end."""

    def __init__(self, url: str) -> None:
        address = read_address(url)
        self._client: AsyncMongoClient[Doc] = AsyncMongoClient(
            address.url, appname="ganger-disbatch", maxPoolSize=_MOST_CONNECTIONS, timeoutMS=_PATIENCE
        )
        self._handle = self._client.get_database(address.database, codec_options=CODEC)

    async def close(self) -> None:
        await self._client.close()

    async def find(
        self, collection: str, filter_: Mapping[str, Any], fields: Sequence[str]
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        """The documents that match, with these fields, as JSON can say them. BadInput: it is no filter."""
        if collection.startswith(_RESERVED) or "$" in collection:
            raise BadInput(f"the collection {collection!r:.80} is not for tasks", field="collection")
        try:
            async for document in self._handle[collection].find(
                read_filter(filter_), dict.fromkeys(["_id", *fields], 1)
            ):
                yield {name: plain(value) for name, value in document.items()}
        except OperationFailure as error:
            raise BadInput(f"Could not iterate on collection {collection:.80}: {error}", field="filter") from None
        except (PyMongoError, BSONError) as error:
            raise translate(error, "reading a collection") from error


def read_filter(value: Any) -> Any:
    """The filter with its ids: JSON writes them as `{"$oid": "..."}`."""
    if isinstance(value, list):
        return [read_filter(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"$oid"}:
        return _read_id(value["$oid"])
    return {name: read_filter(part) for name, part in value.items()}


def _read_id(face: Any) -> ObjectId:
    if not isinstance(face, str) or not ObjectId.is_valid(face):
        raise BadInput(f"Bad OID passed: {face!r:.40}", field="filter")
    return ObjectId(face)


def plain(value: Any) -> Any:
    """A value of a document as JSON can say it."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, DatetimeMS):
        return _say_date(int(value))
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _say_date(wall: int) -> str | int:
    """A date as text; one that Python has no words for stays a number."""
    try:
        return datetime.fromtimestamp(wall / 1_000, UTC).isoformat().replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return wall
