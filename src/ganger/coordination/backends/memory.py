"""Documents in the memory of one process: the model that every other backend is compared with."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ganger.coordination.backend import (
    Capabilities,
    Document,
    Listed,
    Listing,
    Reading,
    Version,
    Written,
    check_fields,
    check_name,
    decode,
    encode,
    pick,
    stale_version,
)
from ganger.core.clock import Clock
from ganger.core.errors import StoreClosed
from ganger.databases.listeners import Listeners


class _Kept(NamedTuple):
    version: Version
    body: bytes


class MemoryBackend:
    """`Backend`. Everything in one process that is handed the same one shares its documents."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._documents: dict[str, _Kept] = {}
        self._terms = 0
        self._listeners = Listeners(asyncio.get_running_loop())
        self._closed = False

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=False, notifies=True)

    async def read(self, name: str) -> Reading:
        self._check_open()
        kept = self._documents.get(check_name(name))
        if kept is None:
            return Reading(None, None, self._clock.wall())
        return Reading(decode(kept.body, name), kept.version, self._clock.wall())

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        self._check_open()
        body = encode(document)
        self._check_version(check_name(name), version)
        if version is None:
            self._terms += 1
        given = Version(self._terms, 1) if version is None else version._replace(number=version.number + 1)
        self._documents[name] = _Kept(given, body)
        self._listeners.tell([name])
        return Written(given, self._clock.wall())

    async def delete(self, name: str, version: Version) -> None:
        self._check_open()
        self._check_version(check_name(name), version)
        del self._documents[name]
        self._listeners.tell([name])

    def _check_version(self, name: str, version: Version | None) -> None:
        kept = self._documents.get(name)
        if version != (None if kept is None else kept.version):
            raise stale_version(name)

    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        self._check_open()
        check_fields(fields)
        found = [
            Listed(name, kept.version, pick(decode(kept.body, name), fields))
            for name, kept in sorted(self._documents.items())
            if name.startswith(prefix)
        ]
        return Listing(found, self._clock.wall())

    def watch(self, names: Iterable[str], told: Callable[[], None]) -> Callable[[], None]:
        return self._listeners.add(names, lambda _: told())

    async def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the documents are closed: open them again")
