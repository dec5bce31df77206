"""Every place for versioned documents, on a real server where there is one: its name, and an address in it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from ganger.assembly.coordination import open_backend
from ganger.assembly.settings import Settings
from ganger.coordination.backend import Backend
from ganger.coordination.backends.memory import MemoryBackend
from ganger.core.clock import Clock
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.contracts.documents import DocumentStand

PLACES: Final = ("memory", "file", "sqlite", "postgres", "mongo", "elastic")
SHARED: Final = PLACES[1:]
"""Those that processes share."""
_FIXTURES: Final = {"postgres": "postgres_url", "mongo": "mongo_url"}


def find_address(place: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """An address of this place that no other test has."""
    match place:
        case "memory":
            return "memory:"
        case "file":
            return f"file:{folder / 'documents'}"
        case "sqlite":
            return f"sqlite:{folder / 'tasks.db'}"
        case "elastic":
            return str(request.getfixturevalue("opensearch").fresh_url())
        case _:
            give: Callable[[], str] = request.getfixturevalue(_FIXTURES[place])
            return give()


def mark_servers(places: tuple[str, ...] = PLACES) -> list[Any]:
    """The places as parameters; those on servers are marked as such."""
    own = {"memory", "file", "sqlite"}
    return [place if place in own else pytest.param(place, marks=pytest.mark.servers) for place in places]


@asynccontextmanager
async def open_stand(address: str, clock: Clock | None = None) -> AsyncIterator[DocumentStand]:
    """How to open this address again and again; all of it is closed at the end."""
    time = SystemClock() if clock is None else clock
    async with AsyncExitStack() as stack:
        shared = MemoryBackend(time)

        async def open_again() -> Backend:
            if address == "memory:":
                return shared
            return await stack.enter_async_context(open_backend(Settings(store=address), time, SystemEntropy()))

        yield DocumentStand(open_again, time)


def run_stand(address: str, check: Callable[[DocumentStand], Any]) -> None:
    async def run() -> None:
        async with open_stand(address) as stand:
            await check(stand)

    asyncio.run(run())
