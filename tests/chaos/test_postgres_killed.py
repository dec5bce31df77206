"""The PostgreSQL server dies, or stands still, or the way to it breaks: nothing is lost or doubled, and all go on."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import quote

import pytest

from ganger.engine.store import EVENTS_TOPIC
from ganger.engine.stores.postgres import PostgresStore
from tests.chaos.harness_postgres import Bustle
from tests.servers.mortal import run_mortal
from tests.servers.postgres import USER, PostgresServer
from tests.servers.proxy import CuttingProxy

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(240)]
KILLS = 3
STOPS = 3
STANDSTILL = 1.0
"""Seconds for which the server answers nobody."""
TASKS = 400
SEEDS = (1, 2)
CUT_TASKS = 150

Disturb = Callable[["asyncio.Future[None]"], Awaitable[None]]
"""What happens to the server while the bustle runs."""


@pytest.fixture(scope="module")
def mortal(postgres: object) -> Iterator[PostgresServer]:
    with run_mortal(PostgresServer) as server:
        yield server


def test_a_server_that_is_killed_and_comes_back_has_lost_nothing(mortal: PostgresServer) -> None:
    async def kill(_running: "asyncio.Future[None]") -> None:
        await asyncio.to_thread(mortal.kill)
        await asyncio.to_thread(mortal.start)

    asyncio.run(_live_through(mortal.url("killed"), kill, KILLS))


def test_a_server_that_stands_still_for_a_while_has_lost_nothing(mortal: PostgresServer) -> None:
    async def stop(running: "asyncio.Future[None]") -> None:
        mortal.pause()
        done, _ = await asyncio.wait([running], timeout=STANDSTILL)
        assert not done, "nothing ends while nobody answers"
        mortal.resume()

    asyncio.run(_live_through(mortal.url("stopped"), stop, STOPS))


async def _live_through(url: str, disturb: Disturb, times: int) -> None:
    bustle = Bustle(TASKS)
    await bustle.open(url)
    running = asyncio.ensure_future(bustle.run())
    for number in range(times):
        await _hear_of(bustle.stores[0], (number + 1) * 20)
        await disturb(running)
    await running
    await bustle.check()
    await bustle.close()


async def _hear_of(store: PostgresStore, events: int) -> None:
    """Wait until so many things have happened."""
    heard = asyncio.Event()
    stop = store.listen((EVENTS_TOPIC,), lambda _: heard.set())
    while (await store.directory()).last_event < events:
        await heard.wait()
        heard.clear()
    stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_connections_that_are_cut_at_any_byte_lose_and_double_nothing(mortal: PostgresServer, seed: int) -> None:
    async def story() -> None:
        bustle = Bustle(CUT_TASKS)
        async with CuttingProxy(mortal.folder, 2_000, 60_000, seed) as proxy:
            proxy.cuts = False
            await bustle.open(f"postgresql://{USER}@/postgres?host={quote(str(proxy.folder))}&schema=cut{seed}")
            proxy.cuts = True
            await bustle.run()
            proxy.cuts = False
            await bustle.check()
            assert proxy.broken > 5
            await bustle.close()

    asyncio.run(story())
