"""The database server is gone for longer than anybody waits for it: what runs goes on, and is settled afterwards.

For how long is the environment's GANGER_TEST_AWAY, in seconds: `GANGER_TEST_AWAY=60` is what is promised.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ganger.core.errors import StoreUnavailable
from ganger.core.ids import TaskId
from ganger.core.state import Status
from tests.servers.mongo import MongoServer
from tests.servers.mortal import run_mortal
from tests.servers.postgres import PostgresServer
from tests.system.harness_node import PATIENCE, Desk, appear
from tests.system.test_postgres_attempts import work

AWAY: Final = float(os.environ.get("GANGER_TEST_AWAY", "0"))
pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(240 + AWAY)]


@pytest.fixture(params=[("postgres", PostgresServer), ("mongo", MongoServer)], ids=["postgres", "mongo"])
def mortal(request: pytest.FixtureRequest) -> Iterator[PostgresServer | MongoServer]:
    """A server of the test's own, of each kind."""
    shared, make = request.param
    request.getfixturevalue(shared)
    with run_mortal(make) as server:
        yield server


def test_a_command_lives_through_it_and_its_end_is_stored(mortal: PostgresServer | MongoServer, tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    script = f"echo yes > {begun}; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done; echo yes > {ended}; echo done"

    async def story() -> None:
        async with asyncio.timeout(200 + AWAY), work(mortal.url("away"), tmp_path) as desk:
            task, waiting = await desk.submit(desk.shell(script), desk.shell("echo later"))
            await appear(begun)
            await asyncio.to_thread(mortal.kill)
            await _ask_in_vain(desk, task)
            (tmp_path / "go").touch()
            await appear(ended)
            await asyncio.to_thread(mortal.start)
            async with asyncio.timeout(PATIENCE):
                assert await desk.wait(task, waiting) == [Status.SUCCEEDED] * 2
            assert (await desk.get(task)).attempts == 1
            assert (await desk.engine.read_output(task, "stdout")).body == b"done\n"

    asyncio.run(story())


async def _ask_in_vain(desk: Desk, task: TaskId) -> None:
    """As long as the server is to be gone, and once at least: each time as long as anybody waits for it."""
    loop = asyncio.get_running_loop()
    end, asked = loop.time() + AWAY, False
    while not asked or loop.time() < end:
        with pytest.raises(StoreUnavailable):
            await desk.get(task)
        asked = True
