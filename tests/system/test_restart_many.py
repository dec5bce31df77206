"""Figure 8: a process that is killed with very many tasks in its file is back soon, and its commands have run on.

With 100,000 tasks a new process accepts within 2 seconds, with 1,000,000 within 10, from its start to the answer to the
first submission. The environment's GANGER_TEST_STORED says how many there are. In full:

    GANGER_TEST_STORED=1000000 python -m pytest -s tests/system/test_restart_many.py
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Final

import pytest

from ganger.core.state import Status
from ganger.core.task import NewTask
from tests.system.harness_node import desk
from tests.system.test_up_life import begin, call, check_ended_once, is_gone, up
from tests.yardstick import measuring

STORED: Final = int(os.environ.get("GANGER_TEST_STORED", "100000"))
ALLOWED: Final = 2.0 if STORED <= 100_000 else 10.0
STEP: Final = 10_000

pytestmark = [pytest.mark.slow, pytest.mark.chaos, pytest.mark.timeout(240 + STORED // 1_000)]


def store_many(folder: Path) -> None:
    """A queue that is paused, so that the tasks stay."""

    async def run() -> None:
        async with desk(folder) as made:
            await made.engine.queues.pause(made.queue.id, by="test")
            for _ in range(STORED // STEP):
                await made.engine.submit([NewTask(made.queue.id, "payload", b"wait")] * STEP)
            counts, _ = await made.engine.store.counts()
            assert sum(count.by_status.get(Status.QUEUED, 0) for count in counts) == STORED

    asyncio.run(run())


def test_a_killed_process_is_back_soon_and_its_commands_run_on(tmp_path: Path) -> None:
    store_many(tmp_path)

    with up(tmp_path) as first:
        number, pid = begin(tmp_path)
        first.kill()
        first.wait(60)
    with measuring(tmp_path) as slowness:
        began = time.monotonic()
        with up(tmp_path):
            call(tmp_path, "submit", "--", "true")
            took = time.monotonic() - began
            assert not is_gone(pid)
            (tmp_path / "gate").touch()
            check_ended_once(tmp_path, number)

    print(f"{STORED} tasks: accepting after {took:.2f} s; {slowness}")
    assert took <= ALLOWED, slowness
