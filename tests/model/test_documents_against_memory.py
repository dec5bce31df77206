"""Whatever is asked of it, a place for documents answers as the model does; one that does not is found."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from ganger.coordination.backend import Backend, Document, Listing, Version, Written
from ganger.coordination.backends.memory import MemoryBackend
from ganger.core.errors import StaleVersion
from ganger.runtime.clock import SystemClock
from ganger.testing.document_model import DocumentMachine
from tests.servers.documents import SHARED, find_address, mark_servers, open_stand

SEEKING = settings(max_examples=300, stateful_step_count=30, deadline=None, derandomize=True, phases=[Phase.generate])


@pytest.mark.parametrize("place", mark_servers(SHARED))
def test_a_place_answers_as_the_model_does(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    address, runs = find_address(place, request, tmp_path), count()

    class AgainstMemory(DocumentMachine):
        @asynccontextmanager
        async def open_model(self) -> AsyncIterator[Backend]:
            yield MemoryBackend(SystemClock())

        @asynccontextmanager
        async def open_backend(self) -> AsyncIterator[Backend]:
            async with open_stand(address) as stand:
                yield Apart(await stand.open(), f"run{os.getpid()}-{next(runs)}/")

    bounded = settings(
        max_examples=int(os.environ.get("GANGER_TEST_DOCUMENTS", "6")),
        stateful_step_count=25,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(AgainstMemory, settings=bounded)


class Apart:
    """A backend under names of its own, so that one place serves many runs."""

    def __init__(self, backend: Backend, prefix: str) -> None:
        self._backend = backend
        self._prefix = prefix
        self.capabilities = backend.capabilities
        self.watch = backend.watch
        self.close = backend.close

    async def read(self, name: str) -> Any:
        return await self._backend.read(self._prefix + name)

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        return await self._backend.write(self._prefix + name, document, version)

    async def delete(self, name: str, version: Version) -> None:
        await self._backend.delete(self._prefix + name, version)

    async def list(self, prefix: str, fields: Sequence[str]) -> Listing:
        listing = await self._backend.list(self._prefix + prefix, fields)
        entries = [entry._replace(name=entry.name.removeprefix(self._prefix)) for entry in listing.entries]
        return listing._replace(entries=entries)


class Forgiving(MemoryBackend):
    """Takes any version for the right one."""

    async def write(self, name: str, document: Document, version: Version | None) -> Written:
        return await super().write(name, document, (await self.read(name)).version)


class Forgetful(MemoryBackend):
    """Counts its documents anew when one is deleted."""

    async def delete(self, name: str, version: Version) -> None:
        await super().delete(name, version)
        self._terms = 0


class Sloppy(MemoryBackend):
    """Says that a stale deletion was done."""

    async def delete(self, name: str, version: Version) -> None:
        try:
            await super().delete(name, version)
        except StaleVersion:
            return


@pytest.mark.parametrize("planted", [Forgiving, Forgetful, Sloppy])
def test_a_place_that_differs_is_found(planted: type[MemoryBackend]) -> None:
    class Seeking(DocumentMachine):
        @asynccontextmanager
        async def open_model(self) -> AsyncIterator[Backend]:
            yield MemoryBackend(SystemClock())

        @asynccontextmanager
        async def open_backend(self) -> AsyncIterator[Backend]:
            yield planted(SystemClock())

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Seeking, settings=SEEKING)
