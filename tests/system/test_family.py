"""A command that a real node runs speaks for its task with the token that it was given."""

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from ganger.core.ids import TaskId
from ganger.core.state import Status
from tests.system.harness_node import PATIENCE, Desk, desk, node_in

GANGER = f"{shlex.quote(sys.executable)} -c 'from ganger.cli.main import main; main()'"


def play(folder: Path, scenario: Callable[[Desk], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE + 10), desk(folder) as made:
            await scenario(made)

    asyncio.run(run())


async def _out(desk: Desk, task: TaskId) -> str:
    found = await desk.engine.read_output(task, "stdout")
    return found.body.decode()


def test_a_command_reports_adds_a_child_changes_it_and_sees_its_family(tmp_path: Path) -> None:
    script = f"""
set -e
{GANGER} progress 40 reticulating
child=$({GANGER} add -- echo old)
{GANGER} edit --family "$child" -- echo new
{GANGER} family --json
"""

    async def scenario(desk: Desk) -> None:
        async with node_in(tmp_path):
            (parent,) = await desk.submit(desk.shell(script))
            assert await desk.wait(parent) == [Status.SUCCEEDED], await _out(desk, parent)
            told = (await _out(desk, parent)).split("\n", 1)[1]
            itself, child = (json.loads(line) for line in told.splitlines())
            assert await desk.wait(TaskId(child["id"])) == [Status.SUCCEEDED]

        assert (itself["who"], itself["id"], itself["percent"], itself["info"]) == ("self", parent, 40, "reticulating")
        assert (child["who"], child["status"], child["on"]) == ("child", "blocked", "success")
        assert await _out(desk, TaskId(child["id"])) == "new\n"

    play(tmp_path, scenario)


def test_a_token_ends_with_its_attempt(tmp_path: Path) -> None:
    keep = f"env | grep '^GANGER_' > {shlex.quote(str(tmp_path))}/stolen"
    again = f"""
set -a; . {shlex.quote(str(tmp_path))}/stolen; set +a
{GANGER} add -- echo 'from the grave'
"""

    async def scenario(desk: Desk) -> None:
        async with node_in(tmp_path):
            (first,) = await desk.submit(desk.shell(keep))
            assert await desk.wait(first) == [Status.SUCCEEDED]
            (second,) = await desk.submit(desk.shell(again))
            assert await desk.wait(second) == [Status.FAILED]
            said = await desk.engine.read_output(second, "stderr")
            assert "[stale_lease]" in said.body.decode()
            assert (await desk.engine.look(first)).family.children == []

    play(tmp_path, scenario)
