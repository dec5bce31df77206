"""A command that runs on a PostgreSQL store speaks for its task, from whatever folder it runs in."""

import asyncio
import json
import shlex
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ganger.assembly.node import NodeWishes, open_node
from ganger.assembly.settings import Settings
from ganger.core.state import Status
from ganger.engine.engine import Engine
from ganger.node.options import NodeOptions
from tests.system.harness_node import PATIENCE, Desk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
GANGER = f"{shlex.quote(sys.executable)} -c 'from ganger.cli.main import main; main()'"


@asynccontextmanager
async def work(url: str, home: Path) -> AsyncIterator[Desk]:
    """A node whose folder is the home, and a desk beside it."""
    options, wishes = NodeOptions("ada", slots=2), NodeWishes(upkeep=True)
    async with open_node(Settings(store=url, home=str(home)), options, wishes) as opened:
        assert isinstance(opened.engine, Engine)
        desk = Desk(opened.engine, home)
        desk.queue = await opened.engine.queues.ensure("work", by="test")
        yield desk


def test_a_command_adds_a_child_and_sees_its_family(tmp_path: Path, postgres_url: Callable[[], str]) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    script = f"""
set -e
cd {shlex.quote(str(elsewhere))}
{GANGER} progress 40 reticulating
child=$({GANGER} add -- echo new)
{GANGER} family --json
"""

    async def story() -> None:
        async with asyncio.timeout(PATIENCE * 2), work(postgres_url(), tmp_path) as desk:
            (parent,) = await desk.submit(desk.shell(script))
            ended = await desk.wait(parent)
            said = await desk.engine.read_output(parent, "stderr")
            assert ended == [Status.SUCCEEDED], said.body.decode()
            told = (await desk.engine.read_output(parent, "stdout")).body.decode()
            itself, child = (json.loads(line) for line in told.splitlines())
            assert (itself["id"], itself["percent"]) == (parent, 40)
            assert await desk.wait(child["id"]) == [Status.SUCCEEDED]

    asyncio.run(story())


def test_a_token_of_another_store_is_refused(tmp_path: Path, postgres_url: Callable[[], str]) -> None:
    """The key is in the home: whoever is not told which one it is has none to be checked with."""
    other = tmp_path / "other"
    other.mkdir()
    script = f"GANGER_HOME={shlex.quote(str(other))} {GANGER} add -- echo new"

    async def story() -> None:
        async with asyncio.timeout(PATIENCE * 2), work(postgres_url(), tmp_path) as desk:
            (parent,) = await desk.submit(desk.shell(script))
            assert await desk.wait(parent) == [Status.FAILED]
            said = (await desk.engine.read_output(parent, "stderr")).body.decode()
            assert "there is no key" in said

    asyncio.run(story())
