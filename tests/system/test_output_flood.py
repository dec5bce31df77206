"""Figure 12: a command that writes at full speed costs little memory, and others hardly notice.

Node and guardian together grow by 50 MB at most, and the time of another command, from its submission to its end, at
most doubles (p99). That second figure needs a machine that does nothing else, so it is asked for in the full test only;
else it is enough if no other takes long. The environment's GANGER_TEST_FLOOD says how many megabytes are written. In
full:

    GANGER_TEST_FLOOD=1024 python -m pytest -s tests/system/test_output_flood.py
"""

import asyncio
import os
import time
from glob import glob
from pathlib import Path
from typing import Final

import psutil
import pytest

from ganger.core.state import Status
from ganger.core.task import Kind, NewTask
from ganger.wire.specs import ShellSpec, encode
from tests.system.harness import crew
from tests.system.harness_node import Desk, desk, serve_node
from tests.yardstick import measuring

FLOOD: Final = int(os.environ.get("GANGER_TEST_FLOOD", "200"))
MEGABYTE: Final = 1 << 20
OTHERS: Final = 100
FULL: Final = FLOOD >= 1_024
ENOUGH: Final = 0.5
PATIENCE: Final = 100 + FLOOD
"""Seconds: all of it is brought to the disk, some three times over."""

ROUNDS: Final = 3
"""Whoever else uses the machine makes it worse: the best round counts."""

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(400 + FLOOD // 2)]


class Scale:
    """The memory of a node and its guardians."""

    def __init__(self, folder: Path, node: int) -> None:
        pids = [int(Path(one).read_text()) for one in glob(f"{folder}/ganger.db-nodes/**/guardian.pid", recursive=True)]
        self._processes = [psutil.Process(pid) for pid in (node, *pids)]
        self._before = self.most = self._weigh()

    def _weigh(self) -> int:
        return sum(process.memory_info().rss for process in self._processes)

    def look(self) -> None:
        self.most = max(self.most, self._weigh())

    @property
    def grown(self) -> int:
        return self.most - self._before


async def run_other(desk: Desk) -> float:
    began = time.monotonic()
    (task,) = await desk.submit(desk.command("true"))
    assert await desk.wait(task) == [Status.SUCCEEDED]
    return time.monotonic() - began


async def run_meanwhile(desk: Desk, scale: Scale) -> list[float]:
    """The times of others while somebody floods."""
    spec = encode(ShellSpec(script=f"head -c {FLOOD * MEGABYTE} /dev/zero", merge=True))
    (task,) = await desk.submit(NewTask(desk.queue.id, Kind.SHELL, spec))
    await desk.until_task(task, lambda found: found.status != Status.QUEUED)
    flood, times = asyncio.create_task(desk.engine.wait([task], PATIENCE)), []
    while not flood.done():
        times.append(await run_other(desk))
        scale.look()
    assert (await flood).statuses == [Status.SUCCEEDED]
    assert (await desk.engine.read_output(task, "mixedout", 0, 1)).size == FLOOD * MEGABYTE
    await desk.engine.remove(task, by="test")
    return times


def p99(times: list[float]) -> float:
    return sorted(times)[len(times) * 99 // 100]


async def is_hardly_noticed(desk: Desk, scale: Scale) -> bool:
    alone = [await run_other(desk) for _ in range(OTHERS)]
    meanwhile: list[float] = []
    with measuring(desk.folder) as slowness:
        while len(meanwhile) < OTHERS:
            meanwhile += await run_meanwhile(desk, scale)
    print(f"others p99: alone {p99(alone) * 1000:.1f} ms, meanwhile {p99(meanwhile) * 1000:.1f} ms; {slowness}")
    return p99(meanwhile) <= (2 * p99(alone) if FULL else ENOUGH)


def test_a_flood_of_output_takes_little_memory_and_others_hardly_notice(tmp_path: Path) -> None:
    async def check() -> None:
        async with desk(tmp_path) as made:
            with crew() as hired:
                member = hired.start(serve_node, tmp_path, {"kinds": ("command", "shell"), "slots": 2})
                member.hear()
                await run_other(made)
                scale = Scale(tmp_path, member.pid)
                rounds = 1
                while not await is_hardly_noticed(made, scale):
                    assert rounds < ROUNDS
                    rounds += 1
                assert scale.grown <= 50 * MEGABYTE
                print(f"{FLOOD} MB: +{scale.grown / MEGABYTE:.1f} MB")
                assert member.ask("stop") == ("ended",)

    asyncio.run(check())
