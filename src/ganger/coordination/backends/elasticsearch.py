"""Documents in an index of Elasticsearch or OpenSearch, each as it is, its version the server's own.

A version is (`_primary_term`, `_seq_no`): with one primary shard every write has a higher one. Reads may be stale, and
lists lag behind by a refresh: both give candidates, and only an answered conditional write proves anything.
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
    encode,
    stale_version,
)
from ganger.core.clock import Clock
from ganger.databases.elasticsearch import Index, Refused, read_address

_REFRESH: Final = 1_000
"""Milliseconds between two refreshes, unless somebody has set it otherwise."""


class ElasticBackend:
    """`Backend` over one index."""

    def __init__(self, index: Index, clock: Clock) -> None:
        self._index = index
        self._clock = clock

    @classmethod
    async def open(cls, url: str, clock: Clock) -> "ElasticBackend":
        """The documents in the index that the URL names, which is made if it is not there."""
        return cls(await Index.open(read_address(url)), clock)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(lag=_REFRESH)

    async def read(self, name: str) -> Reading:
        hit = await self._index.find(check_name(name))
        if hit is None:
            return Reading(None, None, self._clock.wall())
        if not isinstance(hit.source, dict):
            raise bad_document(name, "it has no source: the index must keep `_source`")
        return Reading(hit.source, Version(*hit.version), self._clock.wall())

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        body = encode(document)
        try:
            if version is None:
                given = await self._index.make(check_name(name), body)
            else:
                given = await self._index.replace(check_name(name), body, version)
        except Refused:
            raise stale_version(name) from None
        return Written(Version(*given), self._clock.wall())

    async def delete(self, name: str, version: Version) -> None:
        try:
            await self._index.remove(check_name(name), version)
        except Refused:
            raise stale_version(name) from None

    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        hits = await self._index.search(check_fields(fields))
        # The server has no query for the beginning of an id: the ids of a few thousand documents come with one answer.
        found = {hit.id: hit for hit in hits if hit.id.startswith(prefix) and isinstance(hit.source, dict)}
        entries = [Listed(name, Version(*hit.version), hit.source) for name, hit in sorted(found.items())]
        return Listing(entries, self._clock.wall())

    def watch(self, names: Iterable[str], told: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    async def close(self) -> None:
        await self._index.close()
