"""Figures 5 and 6: how soon a task is ready again when its worker is dead or silent; none runs beside its heir.

- A worker's process dies and its connection breaks: ready again within a second (p99).
- A node is silent: ready again within its lease and a second (p99).
- A node is stopped past its lease: its commands are dead at most half a second after the end of trust, and before
  anybody else begins.

The environment's GANGER_TEST_STOPS says how many nodes are stopped, GANGER_TEST_DEATHS how many workers are killed. In
full:

    GANGER_TEST_STOPS=200 GANGER_TEST_DEATHS=200 python -m pytest -s tests/system/test_dead_workers.py
"""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from ganger.core.ids import TaskId
from ganger.core.state import Status
from ganger.core.task import Task
from ganger.runtime.clock import SystemClock
from tests.system.harness import Member, crew
from tests.system.harness_node import Desk, appear, desk, node_in, serve_node
from tests.unit.node.guarded import is_alive, until

STOPS: Final = int(os.environ.get("GANGER_TEST_STOPS", "20"))
DEATHS: Final = int(os.environ.get("GANGER_TEST_DEATHS", "20"))
NODES: Final = 4
LEASE: Final = 1_000
CLOCK: Final = SystemClock()
ONCE: Final = """
if [ -e {place} ]; then kill -0 $(cat {place}) && echo overlap; exit 0; fi
echo $$ > {place}.tmp; mv {place}.tmp {place}
{stay}
"""
"""It runs for ever at its first attempt. The second one looks whether the first is still alive."""

MILD: Final = "exec sleep 1000"
DEAF: Final = "trap '' TERM; (trap '' TERM; setsid -f sleep 1000); while :; do sleep 1; done"

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(60 + 3 * STOPS)]


def worst(times: Sequence[int]) -> int:
    """The 99th of a hundred, and the last of fewer."""
    return sorted(times)[max(0, -(-len(times) * 99 // 100) - 1)]


async def find_ready(desk: Desk, task: Task, since: int) -> int:
    """Milliseconds until the task, which was seen running, is ready again."""
    await desk.until_task(task.id, lambda now: now.status == Status.QUEUED or now.fence > task.fence)
    return CLOCK.now() - since


async def find_running(desk: Desk, tasks: Sequence[TaskId]) -> list[Task]:
    return [await desk.until_task(task, lambda found: found.status == Status.RUNNING) for task in tasks]


async def find_death(pid: int, since: int) -> int:
    await until(lambda: not is_alive(pid))
    return CLOCK.now() - since


async def stop_all(desk: Desk, members: Sequence[Member], number: int) -> tuple[list[int], list[int]]:
    """Let each node have a command, and stop them all: when the tasks were ready, and when the commands were dead."""
    places = [desk.folder / f"run{number}-{index}" for index in range(len(members))]
    tasks = await desk.submit(*(desk.shell(ONCE.format(place=place, stay=DEAF)) for place in places))
    pids = [int(await appear(place)) for place in places]
    running = await find_running(desk, tasks)
    for member in members:
        member.pause()
    since = CLOCK.now()
    dead, ready = await asyncio.gather(
        asyncio.gather(*(find_death(pid, since) for pid in pids)),
        asyncio.gather(*(find_ready(desk, task, since) for task in running)),
    )
    for member in members:
        member.resume()
    assert await desk.wait(*tasks) == [Status.SUCCEEDED] * len(tasks)
    assert [(await desk.engine.read_output(task, "stdout")).body for task in tasks] == [b""] * len(tasks)
    return ready, dead


def test_a_silent_node_gives_its_tasks_up_in_time_and_its_commands_do_not_outlive_it(tmp_path: Path) -> None:
    async def check() -> tuple[list[int], list[int]]:
        ready: list[int] = []
        dead: list[int] = []
        async with desk(tmp_path) as made:
            with crew() as hired:
                options = [{"name": f"node{n}", "kinds": ("shell",), "lease": LEASE, "slots": 1} for n in range(NODES)]
                members = [hired.start(serve_node, tmp_path, said) for said in options]
                for member in members:
                    member.hear()
                for number in range(-(-STOPS // NODES)):
                    some_ready, some_dead = await stop_all(made, members, number)
                    ready += some_ready
                    dead += some_dead
                for member in members:
                    assert member.ask("stop") == ("ended",)
        return ready, dead

    ready, dead = asyncio.run(check())

    print(f"{len(ready)} stops, lease {LEASE} ms: ready p99 {worst(ready)} ms, dead {max(dead)} ms at most")
    assert worst(ready) <= LEASE + 1_000
    assert max(dead) <= LEASE + 500


def test_a_task_whose_process_was_killed_is_ready_again_within_a_second(tmp_path: Path) -> None:
    async def check() -> list[int]:
        took: list[int] = []
        async with desk(tmp_path) as made, node_in(tmp_path, slots=1):
            for number in range(DEATHS):
                place = tmp_path / f"run{number}"
                (task,) = await made.submit(made.shell(ONCE.format(place=place, stay=MILD)))
                pid = int(await appear(place))
                (running,) = await find_running(made, [task])
                os.kill(pid, signal.SIGKILL)
                took.append(await find_ready(made, running, CLOCK.now()))
                assert await made.wait(task) == [Status.SUCCEEDED]
        return took

    took = asyncio.run(check())

    print(f"{len(took)} deaths: ready p99 {worst(took)} ms")
    assert worst(took) <= 1_000


def test_a_node_that_is_started_again_has_the_task_of_its_dead_namesake_ready_within_a_second(tmp_path: Path) -> None:
    async def check() -> int:
        async with desk(tmp_path) as made:
            gate = tmp_path / "gate"
            (task,) = await made.submit(made.call("wait_for", str(gate)))
            with crew() as hired:
                member = hired.start(serve_node, tmp_path, {"kinds": ("function",), "lease": 60_000})
                member.hear()
                await until(Path(f"{gate}.begun").exists)
                (running,) = await find_running(made, [task])
                member.kill()
            async with node_in(tmp_path, kinds=("function",)):
                took = await find_ready(made, running, CLOCK.now())
                gate.touch()
                assert await made.wait(task) == [Status.SUCCEEDED]
        return took

    assert asyncio.run(check()) <= 1_000
