"""Every work source keeps the contract: of an engine in the same process, and over HTTP from a real server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from ganger.assembly.registry import open_parts
from ganger.assembly.remote.opening import open_remote
from ganger.assembly.remote.source import RemoteSource
from ganger.assembly.settings import Settings
from ganger.assembly.source import EngineSource
from ganger.engine.engine import Engine
from ganger.engine.upkeep import keep_up
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.contracts.source import CHECKS, Check, SourceStand
from ganger.testing.contracts.transport import PATIENCE
from tests.protocol.v1.harness import serve

Stand = Callable[[Path], AbstractAsyncContextManager[SourceStand]]


@asynccontextmanager
async def stand_embedded(folder: Path) -> AsyncIterator[SourceStand]:
    clock, entropy = SystemClock(), SystemEntropy()
    async with open_parts(Settings(store=f"sqlite:{folder / 'tasks.db'}"), clock, entropy) as parts:
        engine = Engine(parts.store, clock, entropy, blobs=parts.blobs)
        upkeep = keep_up(parts.store, clock)
        await upkeep.start()
        try:
            yield SourceStand(EngineSource(engine, clock, blobs=parts.blobs), engine, clock)
        finally:
            await upkeep.stop()
            await engine.close()


@asynccontextmanager
async def stand_over_http(folder: Path) -> AsyncIterator[SourceStand]:
    async with serve(folder) as site:
        token = site.server.tokens.add("worker", ["work", "read"]).token
        async with open_remote(Settings(store=site.server.url, token=token)) as far:
            yield SourceStand(RemoteSource(far, SystemClock()), site.engine, SystemClock())


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("stand", [stand_embedded, pytest.param(stand_over_http, marks=pytest.mark.slow)])
def test_sources_keep_the_contract(stand: Stand, check: Check, tmp_path: Path) -> None:
    async def run() -> None:
        async with asyncio.timeout(2 * PATIENCE), stand(tmp_path) as opened:
            await check(opened)

    asyncio.run(run())


def test_no_check_of_the_suite_is_left_out() -> None:
    from ganger.testing.contracts import source

    written = {name for name, value in vars(source).items() if asyncio.iscoroutinefunction(value) and name[0] != "_"}
    assert written - {"soon"} == {getattr(check, "__name__", "") for check in CHECKS}
