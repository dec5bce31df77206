"""Five hundred commands that sleep at once: node and guardian together take 300 MB at most, and all can be killed."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from ganger.core.state import Status
from tests.system.harness import crew
from tests.system.harness_node import desk, serve_node
from tests.system.test_output_flood import MEGABYTE, Scale

COMMANDS: Final = 500
pytestmark = [pytest.mark.slow, pytest.mark.chaos]


def test_five_hundred_commands_at_once_take_little_memory(tmp_path: Path) -> None:
    async def check() -> int:
        async with desk(tmp_path) as made:
            with crew() as hired:
                member = hired.start(serve_node, tmp_path, {"kinds": ("command",), "slots": COMMANDS})
                member.hear()
                tasks = await made.submit(*[made.command("sleep", "1000")] * COMMANDS)
                for task in tasks:
                    await made.until_task(task, lambda found: found.status == Status.RUNNING)
                used = Scale(tmp_path, member.pid).most
                await made.engine.kill(tasks, by="test")
                assert await made.wait(*tasks) == [Status.TERMINATED] * COMMANDS
                assert member.ask("stop") == ("ended",)
        return used

    used = asyncio.run(check())

    print(f"{COMMANDS} commands: node and guardian {used / MEGABYTE:.0f} MB")
    assert used <= 300 * MEGABYTE
