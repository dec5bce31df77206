"""The engine inside a program of one's own: one call, no server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ganger.assembly.location import is_remote
from ganger.assembly.registry import open_far, open_parts
from ganger.assembly.retention import read_retention
from ganger.assembly.settings import load
from ganger.engine.collecting import Collector
from ganger.engine.engine import Engine
from ganger.engine.upkeep import keep_up
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.runtime.service import Service


@asynccontextmanager
async def open_engine(store: str | None = None, *, upkeep: bool = True) -> AsyncIterator[Engine]:
    """The engine over the store of this URL: `sqlite:<path>`, `memory:`, or None for the one that the settings name.

    With the address of a server it is the engine over there, and upkeep is the server's.

    `upkeep` also takes back lost leases, promotes what is due and removes what is old, as long as the engine is open;
    any number of processes may do that at once. Raises BadInput for an unknown URL, and StoreError.
    """
    settings = load(Path.cwd(), store=store)
    if is_remote(settings):
        async with open_far(settings) as far:
            yield far
        return
    async with open_parts(settings, SystemClock(), SystemEntropy()) as parts:
        engine = Engine(parts.store, parts.clock, parts.entropy, blobs=parts.blobs)
        retention = read_retention(settings)
        collector = Collector(parts.store, parts.clock, parts.blobs)
        chores = Service("chores", children=[keep_up(parts.store, parts.clock, retention), collector])
        try:
            if upkeep:
                await chores.start()
            yield engine
        finally:
            await chores.stop()
            await engine.close()
