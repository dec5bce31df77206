"""Figure 7: tasks that are killed, cancelled with their group or timed out leave nobody, and end in time.

Some daemonise, some ignore TERM, some do both. An end takes at most the grace of the task and a second (p99), from the
word of the operator, or the end of the time, to the final status in the store. The environment's GANGER_TEST_ENDS says
how many there are. In full:

    GANGER_TEST_ENDS=1000 python -m pytest -s tests/system/test_kills.py
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from glob import glob
from itertools import count
from pathlib import Path
from typing import Final

import psutil
import pytest

from ganger.core.ids import TaskId
from ganger.core.state import Status
from ganger.core.task import Kind, NewTask
from ganger.runtime.clock import SystemClock
from ganger.wire.specs import CommandSpec, ShellSpec, encode
from tests.system.harness_node import Desk, appear, desk, node_in
from tests.system.test_dead_workers import worst
from tests.unit.node.guarded import until
from tests.yardstick import Slowness, reach

ENDS: Final = int(os.environ.get("GANGER_TEST_ENDS", "48"))
TOGETHER: Final = 8
GRACE: Final = 200
TIMEOUT: Final = 600
TIMED_OUT: Final = 124
CLOCK: Final = SystemClock()

DAEMON: Final = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(sys.argv[1], "w").write("ready\\n")
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)
"""
SCRIPTS: Final = (
    "echo ready > {place}; exec sleep 1000",
    "trap '' TERM; echo ready > {place}; while :; do sleep 1; done",
    "setsid -f sleep 1000; setsid sleep 1000 & echo ready > {place}; wait",
    "env -i setsid -f sh -c 'trap \"\" TERM; sleep 1000; :'; trap '' TERM; echo ready > {place}; sleep 1000; :",
)

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(240 + 2 * ENDS)]


class Ward:
    """Makes tasks that are hard to end, of every way in turn, and knows where each says that it is ready."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._numbers = count()

    def make(self, **fields: int) -> tuple[NewTask, Path]:
        number = next(self._numbers)
        place = self._desk.folder / f"ready{number}"
        way = number % (len(SCRIPTS) + 1)
        if way == len(SCRIPTS):
            spec = encode(CommandSpec(argv=[sys.executable, "-c", DAEMON, str(place)], grace=GRACE))
            return NewTask(self._desk.queue.id, Kind.COMMAND, spec, **fields), place  # type: ignore[arg-type]
        script = encode(ShellSpec(script=SCRIPTS[way].format(place=place), grace=GRACE))
        return NewTask(self._desk.queue.id, Kind.SHELL, script, **fields), place  # type: ignore[arg-type]


async def begin(desk: Desk, made: Sequence[tuple[NewTask, Path]]) -> list[TaskId]:
    ids = await desk.submit(*(task for task, _ in made))
    for _, place in made:
        await appear(place)
    return ids


async def end_of(desk: Desk, task: TaskId, since: int) -> int:
    assert await desk.wait(task) == [Status.TERMINATED]
    return CLOCK.now() - since


async def kill(desk: Desk, ward: Ward) -> list[int]:
    tasks = await begin(desk, [ward.make() for _ in range(TOGETHER)])
    since = CLOCK.now()
    await desk.engine.kill(tasks, by="test")
    return list(await asyncio.gather(*(end_of(desk, task, since) for task in tasks)))


async def cancel(desk: Desk, ward: Ward) -> list[int]:
    (group,) = await desk.submit(NewTask(desk.queue.id, Kind.GROUP, open_group=True))
    tasks = await begin(desk, [ward.make(group=group) for _ in range(TOGETHER)])
    since = CLOCK.now()
    await desk.engine.cancel([group], by="test")
    return list(await asyncio.gather(*(end_of(desk, task, since) for task in tasks)))


async def time_out(desk: Desk, ward: Ward) -> list[int]:
    tasks = await desk.submit(*(ward.make(timeout=TIMEOUT)[0] for _ in range(TOGETHER)))
    assert await desk.wait(*tasks) == [TIMED_OUT] * TOGETHER
    return [(task.ended or 0) - (task.started or 0) - TIMEOUT for task in [await desk.get(task) for task in tasks]]


def find_children(folder: Path) -> list[psutil.Process]:
    """Everybody below the guardians of the folder."""
    pids = [int(Path(path).read_text()) for path in glob(f"{folder}/ganger.db-nodes/**/guardian.pid", recursive=True)]
    assert pids
    return [child for pid in pids for child in psutil.Process(pid).children(recursive=True)]


def is_in_time(took: list[int], slowness: Slowness) -> bool:
    half, late = sorted(took)[len(took) // 2], worst(took)
    print(f"{len(took)} ends with a grace of {GRACE} ms: p50 {half} ms, p99 {late} ms; {slowness}")
    return late <= GRACE + 1_000


def test_whatever_is_ended_leaves_nobody_and_ends_in_time(tmp_path: Path) -> None:
    async def check(folder: Path) -> list[int]:
        took: list[int] = []
        async with desk(folder) as made, node_in(folder, kinds=("command", "shell"), slots=TOGETHER):
            ward, ways = Ward(made), (kill, cancel, time_out)
            for number in range(-(-ENDS // TOGETHER)):
                took += await ways[number % len(ways)](made, ward)
            await until(lambda: not find_children(folder))
        return took

    reach(tmp_path, lambda place: asyncio.run(check(place)), is_in_time)
