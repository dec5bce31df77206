"""Nodes share work: none fetches what it cannot begin, and one that is killed had little in hand that nobody knew of.

Figure 23: one kill of a node runs again at most what it had begun, or what had ended within the last 20 ms. The
environment's GANGER_TEST_NODE_KILLS says how many nodes are killed.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Final

import pytest

from ganger.core.ids import TaskId
from ganger.core.state import Status
from tests.system.harness import Crew, crew
from tests.system.harness_node import PATIENCE, Desk, desk, serve_node
from tests.unit.node.guarded import until
from tests.yardstick import reach

KILLS: Final = int(os.environ.get("GANGER_TEST_NODE_KILLS", "3"))
QUICK: Final = 3_000
RECENT: Final = 0.020
"""Seconds before a kill in which what ended may run again."""

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(300 + 60 * KILLS)]


def hire(hired: Crew, folder: Path, *names: str, slots: int = 1) -> None:
    members = [hired.start(serve_node, folder, {"name": name, "slots": slots}) for name in names]
    for member in members:
        member.hear()


async def find_running(made: Desk, tasks: list[TaskId], count: int) -> list[TaskId]:
    """Those that run, as soon as there are so many."""
    async with asyncio.timeout(PATIENCE):
        while True:
            running = [task for task in tasks if (await made.get(task)).status == Status.RUNNING]
            if len(running) >= count:
                return running
            await made.engine.wait(tasks, 0.02)


@pytest.mark.parametrize("kind", ["function", "command"])
def test_what_has_no_slot_is_claimed_by_nobody_and_ends_at_once_if_it_is_cancelled(tmp_path: Path, kind: str) -> None:
    gate = tmp_path / "gate"

    async def run() -> None:
        async with desk(tmp_path) as made:
            script = f"until [ -e {gate} ]; do sleep 0.02; done"
            long = made.call("wait_for", str(gate)) if kind == "function" else made.shell(script)
            with crew() as hired:
                hire(hired, tmp_path, "ada", "eve")
                tasks = await made.submit(*[long] * 6)
                running = await find_running(made, tasks, 2)
                waiting = [task for task in tasks if task not in running]
                assert len(waiting) == 4
                assert [(await made.get(task)).status for task in waiting] == [Status.QUEUED] * 4
                await made.engine.cancel(waiting[-1:], by="test")
                assert (await made.get(waiting[-1])).status == Status.CANCELLED
                (urgent,) = await made.submit(long._replace(priority=1))
                assert (await made.get(urgent)).status == Status.QUEUED
                gate.touch()
                await made.wait(*tasks, urgent)
            found = [await made.get(task) for task in (*tasks, urgent)]
            assert [one.reserves for one in found] == [1] * 5 + [0, 1], "each was claimed once"
            holders = {(await made.engine.look(task)).attempts[0].holder for task in running}
            assert holders == {"ada", "eve"}

    asyncio.run(run())


@pytest.mark.parametrize("number", range(KILLS))
def test_a_kill_runs_again_only_what_had_begun_or_ended_a_moment_ago(tmp_path: Path, number: int) -> None:
    def measure(folder: Path) -> list[float]:
        return asyncio.run(find_repeated(folder))

    reach(tmp_path, measure, lambda ages, _: all(age <= RECENT for age in ages))


async def find_repeated(folder: Path) -> list[float]:
    """How many seconds before the kill of its node each of those ran that ran again."""
    notes = folder / "notes"
    async with asyncio.timeout(2 * PATIENCE), desk(folder) as made:
        with crew() as hired:
            victim = hired.start(serve_node, folder, {"name": "ada", "slots": 1})
            victim.hear()
            tasks = await made.submit(*(made.call("note_moment", str(notes), number) for number in range(QUICK)))
            await until(lambda: notes.exists() and notes.read_bytes().count(b"\n") > QUICK // 3)
            victim.kill()
            killed = time.clock_gettime(time.CLOCK_BOOTTIME)
            hired.bury(victim)
            hire(hired, folder, "eve")
            assert set(await made.wait(*tasks)) == {Status.SUCCEEDED}
    runs: dict[str, list[float]] = {}
    for name, moment in map(str.split, notes.read_text().splitlines()):
        runs.setdefault(name, []).append(float(moment))
    assert len(runs) == QUICK
    return [killed - min(moments) for moments in runs.values() if len(moments) > 1]
