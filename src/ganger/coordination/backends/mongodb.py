"""Documents in a collection of a MongoDB database: each is changed by itself, on the condition of its version.

`{"_id": <name>, "version": {"term": ..., "number": ...}, ...}` with the fields of the document beside them.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ganger.coordination.backend import (
    Capabilities,
    Document,
    Listed,
    Listing,
    Reading,
    Version,
    Written,
    bad_document,
    check_fields,
    check_name,
    decode,
    encode,
    stale_version,
)
from ganger.core.clock import Wall
from ganger.databases.mongo.versioned import Found, VersionedCollection

COLLECTION: Final = "ganger_coordination"
_BEHIND_ALL: Final = "\U0010ffff"
_LOOK: Final = 50


class MongoBackend:
    """`Backend` over one collection."""

    def __init__(self, documents: VersionedCollection) -> None:
        self._documents = documents

    @classmethod
    async def open(cls, url: str) -> "MongoBackend":
        documents = VersionedCollection(url, COLLECTION)
        try:
            await documents.now()
        except BaseException:
            await documents.close()
            raise
        return cls(documents)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(server_clock=True, look=_LOOK)

    async def read(self, name: str) -> Reading:
        found = await self._documents.find(check_name(name))
        if found is None:
            return Reading(None, None, Wall(await self._documents.now()))
        if not isinstance(found, Found):
            raise bad_document(name, "it has no version")
        return Reading(found.fields, Version(*found.version), Wall(found.at))

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        # What goes through JSON comes back from every backend alike.
        fields = decode(encode(document), check_name(name))
        if version is None:
            written = await self._documents.make(name, fields)
        else:
            written = await self._documents.replace(name, fields, version)
        if written is None:
            raise stale_version(name)
        return Written(Version(*written[0]), Wall(written[1]))

    async def delete(self, name: str, version: Version) -> None:
        if not await self._documents.remove(check_name(name), version):
            raise stale_version(name)

    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        rows = await self._documents.list(prefix, prefix + _BEHIND_ALL, check_fields(fields))
        at = rows[0][1].at if rows else await self._documents.now()
        return Listing([Listed(name, Version(*found.version), found.fields) for name, found in rows], Wall(at))

    def watch(self, names: Iterable[str], told: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    async def close(self) -> None:
        await self._documents.close()
