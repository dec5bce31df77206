"""The PostgreSQL server is gone for longer than anybody waits for it: what runs goes on, and is settled afterwards."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganger.core.errors import StoreUnavailable
from ganger.core.state import Status
from tests.servers.postgres import Missing, PostgresServer
from tests.system.harness_node import PATIENCE, appear
from tests.system.test_postgres_attempts import work

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def mortal(postgres: object) -> Iterator[PostgresServer]:
    """A server of the test's own. (The shared one is asked for because it says what to do where there is none.)"""
    try:
        server = PostgresServer()
    except Missing as missing:
        pytest.skip(f"NOT TESTED: {missing}; a server that somebody else runs is not killed")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def test_a_command_lives_through_it_and_its_end_is_stored(mortal: PostgresServer, tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    script = f"echo yes > {begun}; while [ ! -e {tmp_path}/go ]; do sleep 0.1; done; echo yes > {ended}; echo done"

    async def story() -> None:
        async with asyncio.timeout(200), work(mortal.url("away"), tmp_path) as desk:
            task, waiting = await desk.submit(desk.shell(script), desk.shell("echo later"))
            await appear(begun)
            await asyncio.to_thread(mortal.kill)
            with pytest.raises(StoreUnavailable):
                await desk.get(task)
            (tmp_path / "go").touch()
            await appear(ended)
            await asyncio.to_thread(mortal.start)
            async with asyncio.timeout(PATIENCE):
                assert await desk.wait(task, waiting) == [Status.SUCCEEDED] * 2
            assert (await desk.get(task)).attempts == 1
            assert (await desk.engine.read_output(task, "stdout")).body == b"done\n"

    asyncio.run(story())
