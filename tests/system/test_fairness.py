"""Eight processes submit to one file, one task at a time: each gets its share, and nobody waits long."""

import asyncio
import os
import time
from pathlib import Path
from typing import Final

import pytest

from ganger.core.ids import QueueId
from ganger.core.task import Kind, NewTask
from ganger.engine.store import Submission
from tests.system.harness import Line, crew
from tests.system.harness_store import found, open_store
from tests.yardstick import measuring

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

PROCESSES: Final = 8
SECONDS: Final = float(os.environ.get("GANGER_TEST_FAIRNESS", "5"))
LEAST_SHARE: Final = 0.5
LONGEST_WAIT: Final = 0.250
ROUNDS: Final = 3
"""The best of these counts: whatever else the machine does makes a wait longer, never shorter."""


async def submit_one_by_one(line: Line, database: Path, queue: QueueId) -> None:
    """Submit until the time is over; how many, and the longest wait for an answer."""
    store, done, longest = await open_store(database), 0, 0.0
    line.say("open")
    end = time.monotonic() + (await line.hear())[0]
    while (start := time.monotonic()) < end:
        await store.submit(Submission((NewTask(queue, Kind.PAYLOAD),)))
        done, longest = done + 1, max(longest, time.monotonic() - start)
    line.say(done, longest, store.file.owns)
    await line.hear()
    await store.close()


def measure(database: Path) -> tuple[float, float]:
    """The least share of the mean that a process got, and the longest wait of any."""
    queue = asyncio.run(found(database))
    with crew() as hired:
        members = [hired.start(submit_one_by_one, database, queue) for _ in range(PROCESSES)]
        for member in members:
            assert member.hear() == ("open",)
        for member in members:
            member.tell(SECONDS)
        results = [member.hear() for member in members]
    done = [count for count, _, _ in results]
    mean, longest = sum(done) / PROCESSES, max(wait for _, wait, _ in results)
    owner = next(count for count, _, owns in results if owns)
    print(f"\n{sum(done) / SECONDS:.0f}/s in all, {min(done) / mean:.2f} to {max(done) / mean:.2f} of the mean each")
    print(f"the owner {owner / mean:.2f} of it; longest wait {longest * 1000:.0f} ms", end="")
    return min(done) / mean, longest


def test_each_of_eight_producers_gets_its_share_and_no_wait_is_long(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        with measuring(tmp_path) as slowness:
            least, longest = measure(tmp_path / f"{number}.db")
        if least >= LEAST_SHARE and longest <= LONGEST_WAIT:
            return
    raise AssertionError(f"the least share was {least:.2f}, the longest wait {longest * 1000:.0f} ms, on a {slowness}")
