"""Every transport keeps the contract: in the same process, and over HTTP to a real server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from ganger.assembly.client import EngineTransport
from ganger.assembly.remote.opening import open_remote
from ganger.assembly.settings import Settings
from ganger.testing.contracts.transport import CHECKS, PATIENCE, Check, TransportStand
from tests.protocol.v1.harness import serve

Stand = Callable[[Path], AbstractAsyncContextManager[TransportStand]]


@asynccontextmanager
async def stand_embedded(folder: Path) -> AsyncIterator[TransportStand]:
    async with serve(folder) as site:
        yield TransportStand(EngineTransport(site.engine), site.engine)


@asynccontextmanager
async def stand_over_http(folder: Path) -> AsyncIterator[TransportStand]:
    async with serve(folder) as site:
        settings = Settings(store=site.server.url, token=site.server.tokens.admin_path.read_text().strip())
        async with open_remote(settings) as engine:
            yield TransportStand(EngineTransport(engine), site.engine)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("stand", [stand_embedded, pytest.param(stand_over_http, marks=pytest.mark.slow)])
def test_transports_keep_the_contract(stand: Stand, check: Check, tmp_path: Path) -> None:
    async def run() -> None:
        async with asyncio.timeout(2 * PATIENCE), stand(tmp_path) as opened:
            await check(opened)

    asyncio.run(run())


def test_no_check_of_the_suite_is_left_out() -> None:
    from ganger.testing.contracts import transport

    written = {name for name, value in vars(transport).items() if asyncio.iscoroutinefunction(value) and name[0] != "_"}
    assert written - {"soon"} == {getattr(check, "__name__", "") for check in CHECKS}
