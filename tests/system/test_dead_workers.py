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

from ganger.assembly.inheriting import inherit
from ganger.core.ids import TaskId
from ganger.core.state import Status
from ganger.core.task import Task
from ganger.runtime.clock import SystemClock
from tests.system.harness import Member, crew
from tests.system.harness_node import Desk, appear, desk, node_in, serve_node, settings
from tests.unit.node.guarded import is_alive, until
from tests.yardstick import Slowness, measuring, reach

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

DEAF: Final = "trap '' TERM; (trap '' TERM; setsid -f sleep 1000); while :; do sleep 1; done"

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(240 + 5 * STOPS)]


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
    async def check(folder: Path) -> tuple[list[int], list[int]]:
        ready: list[int] = []
        dead: list[int] = []
        async with desk(folder) as made:
            with crew() as hired:
                options = [{"name": f"node{n}", "kinds": ("shell",), "lease": LEASE, "slots": 1} for n in range(NODES)]
                members = [hired.start(serve_node, folder, said) for said in options]
                for member in members:
                    member.hear()
                for number in range(-(-STOPS // NODES)):
                    some_ready, some_dead = await stop_all(made, members, number)
                    ready += some_ready
                    dead += some_dead
                for member in members:
                    assert member.ask("stop") == ("ended",)
        return ready, dead

    def is_in_time(times: tuple[list[int], list[int]], slowness: Slowness) -> bool:
        ready, dead = worst(times[0]), max(times[1])
        print(f"{len(times[0])} stops, lease {LEASE} ms: ready p99 {ready} ms, dead {dead} ms at most; {slowness}")
        return ready <= LEASE + 1_000 and dead <= LEASE + 500

    reach(tmp_path, lambda place: asyncio.run(check(place)), is_in_time)


def test_a_task_whose_process_was_killed_is_ready_again_within_a_second(tmp_path: Path) -> None:
    async def check(folder: Path) -> list[int]:
        took: list[int] = []
        async with desk(folder) as made, node_in(folder, slots=1):
            for number in range(DEATHS):
                place = folder / f"run{number}"
                (task,) = await made.submit(made.call("begin_once", str(place)))
                pid = int(await appear(place))
                (running,) = await find_running(made, [task])
                os.kill(pid, signal.SIGKILL)
                took.append(await find_ready(made, running, CLOCK.now()))
                assert await made.wait(task) == [Status.SUCCEEDED]
        return took

    def is_in_time(took: list[int], slowness: Slowness) -> bool:
        print(f"{len(took)} deaths: ready p99 {worst(took)} ms; {slowness}")
        return worst(took) <= 1_000

    reach(tmp_path, lambda place: asyncio.run(check(place)), is_in_time)


def test_the_functions_of_a_dead_node_are_ready_again_within_a_second(tmp_path: Path) -> None:
    """Nobody of its name comes back: whoever keeps the file up hears of the death from the system."""

    async def die(made: Desk, number: int) -> int:
        gate = tmp_path / f"gate{number}"
        (task,) = await made.submit(made.call("wait_for", str(gate)))
        with crew() as hired:
            member = hired.start(serve_node, tmp_path, {"kinds": ("function",), "lease": 60_000, "name": f"b{number}"})
            member.hear()
            await until(Path(f"{gate}.begun").exists)
            (running,) = await find_running(made, [task])
            others = await made.submit(*(made.call("add", 1, number) for number in range(3)))
            member.kill()
            took = await find_ready(made, running, CLOCK.now())
        found = await made.get(task)
        assert (found.crashes, [(await made.get(one)).crashes for one in others]) == (1, [0, 0, 0])
        await made.engine.cancel([task, *others], by="test")
        return took

    async def check() -> list[int]:
        async with desk(tmp_path) as made:
            upkeep = inherit(settings(tmp_path), made.engine, CLOCK)
            for service in upkeep:
                await service.start()
            took = [await die(made, number) for number in range(max(3, DEATHS // 10))]
            for service in upkeep:
                await service.stop()
        return took

    with measuring(tmp_path) as slowness:
        took = asyncio.run(check())

    print(f"{len(took)} dead nodes: ready p99 {worst(took)} ms; {slowness}")
    assert worst(took) <= 1_000, slowness


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

    with measuring(tmp_path) as slowness:
        took = asyncio.run(check())

    assert took <= 1_000, slowness
