"""The suite is worth what it catches: bugs are planted in the model, one at a time, and the named check must fail."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import pytest

from ganger.coordination.backend import Capabilities, Document, Listing, Reading, Version, Written
from ganger.coordination.backends.memory import MemoryBackend
from ganger.core.clock import Wall
from ganger.core.errors import BadInput, StaleVersion
from ganger.runtime.clock import SystemClock
from ganger.testing.contracts import documents
from ganger.testing.contracts.documents import Check, DocumentStand


class TakesAnyVersion(MemoryBackend):
    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        return await super().write(name, document, None if version is None else (await self.read(name)).version)


class MakesTwice(MemoryBackend):
    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        found = (await self.read(name)).version
        return await super().write(name, document, found if version is None else version)


class CountsAnew(MemoryBackend):
    async def delete(self, name: str, version: Version) -> None:
        await super().delete(name, version)
        self._terms = 0


class ComparesLate(MemoryBackend):
    """Reads, lets others in, and writes whatever it has found."""

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        self._check_version(name, version)
        await asyncio.sleep(0)
        return await super().write(name, document, (await self.read(name)).version)


class StandsStill(MemoryBackend):
    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        written = await super().write(name, document, version)
        if version is not None:
            self._documents[name] = self._documents[name]._replace(version=version)
        return written if version is None else written._replace(version=version)


class DeletesAnything(MemoryBackend):
    async def delete(self, name: str, version: Version) -> None:
        await super().delete(name, (await self.read(name)).version or version)


class ListsEverything(MemoryBackend):
    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        return await super().list("", fields)


class ListsWholeDocuments(MemoryBackend):
    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        return await super().list(prefix, [*fields, "holder"])


class ListsAFew(MemoryBackend):
    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        listing = await super().list(prefix, fields)
        return listing._replace(entries=listing.entries[:100])


class IsSilent(MemoryBackend):
    def watch(self, names: Iterable[str], told: Callable[[], None]) -> Callable[[], None]:
        return lambda: None


class HasAnotherClock(MemoryBackend):
    async def read(self, name: str) -> Reading:
        return (await super().read(name))._replace(at=Wall(0))


class FoldsNames(MemoryBackend):
    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        return await super().write(name.replace("%2F", "/"), document, version)


class Forgets(MemoryBackend):
    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(notifies=True)


class TakesBadDocuments(MemoryBackend):
    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        try:
            return await super().write(name, document, version)
        except BadInput:
            return Written(Version(0, 0), Wall(0))


PLANTED: Final[tuple[tuple[type[MemoryBackend], Check], ...]] = (
    (TakesAnyVersion, documents.a_write_needs_the_version_that_is_there),
    (ComparesLate, documents.no_increment_is_lost),
    (MakesTwice, documents.a_document_is_made_once),
    (CountsAnew, documents.a_version_is_never_given_twice),
    (ComparesLate, documents.of_many_writers_one_wins),
    (StandsStill, documents.versions_grow_with_each_write),
    (DeletesAnything, documents.a_write_needs_the_version_that_is_there),
    (ListsEverything, documents.a_list_has_the_fields_that_were_asked_for),
    (ListsWholeDocuments, documents.a_list_has_the_fields_that_were_asked_for),
    (ListsAFew, documents.a_list_of_very_many_is_whole),
    (IsSilent, documents.a_watcher_is_told_of_what_others_do),
    (HasAnotherClock, documents.what_is_not_there_is_read_as_nothing),
    (FoldsNames, documents.every_name_is_a_name_of_its_own),
    (Forgets, documents.what_was_written_is_there_for_who_opens_it_anew),
    (TakesBadDocuments, documents.bad_documents_are_refused_and_change_nothing),
)


@pytest.mark.parametrize(("planted", "check"), PLANTED, ids=lambda value: value.__name__)
def test_a_planted_bug_is_caught(planted: type[MemoryBackend], check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "PATIENCE", 0.3)

    assert passes(MemoryBackend, check)
    assert not passes(planted, check)


def passes(kind: type[MemoryBackend], check: Check) -> bool:
    async def run() -> None:
        clock = SystemClock()
        backend = kind(clock)

        async def open_again() -> MemoryBackend:
            # The memory of a process ends with it: who opens a place that says it lasts finds a new one.
            return kind(clock) if backend._closed else backend

        await check(DocumentStand(open_again, clock))

    try:
        asyncio.run(run())
    except (AssertionError, StaleVersion, TimeoutError):
        return False
    return True
