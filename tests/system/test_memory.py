"""A file of a million queued tasks is served by a process of a few dozen megabytes, also after a restart."""

import os
import time
from pathlib import Path
from typing import Final

import psutil
import pytest

from ganger.core.task import Kind, NewTask
from ganger.engine.store import Claim, Exchange, Query, Submission
from tests.system.harness import PATIENCE, Crew, Line, crew
from tests.system.harness_store import make_queue, open_store, register, succeed
from tests.yardstick import measuring

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(800)]

TASKS: Final = int(os.environ.get("GANGER_TEST_TASKS", "1000000"))
CHUNK: Final = 5_000
MOST_MEMORY: Final = 160e6
LONGEST_OPENING: Final = 10.0


async def fill(line: Line, database: Path) -> None:
    """Submit all of them."""
    store = await open_store(database)
    queue = await make_queue(store, "work")
    for start in range(0, TASKS, CHUNK):
        await store.submit(Submission((NewTask(queue, Kind.PAYLOAD, b"%d" % start),) * CHUNK))
    line.say(psutil.Process().memory_info().rss)
    await line.hear()
    await store.close()


async def serve(line: Line, database: Path) -> None:
    """Open the full file, run and read some of it; how long the opening took."""
    before = time.monotonic()
    store = await open_store(database)
    opened = time.monotonic() - before
    queue = (await store.directory()).queues[0].id
    claim = Claim((await register(store, "node")).id, (queue,), most=1_000, start=True)
    for _ in range(10):
        claimed = (await store.exchange(Exchange(claim=claim))).claimed
        await store.exchange(Exchange(succeed(claimed)))
        await store.find(Query(queue=queue, newest_first=True, most=1_000))
    counts, _ = await store.counts()
    line.say(psutil.Process().memory_info().rss, opened, counts[0].by_status)
    await line.hear()
    await store.close()


def fill_file(hired: Crew, database: Path) -> float:
    filler = hired.start(fill, database)
    (memory,) = filler.hear(2 * PATIENCE + TASKS / 2_500)
    filler.kill()
    return float(memory)


def test_an_owner_of_a_million_queued_tasks_stays_small(tmp_path: Path) -> None:
    database = tmp_path / "ganger.db"
    with crew() as hired:
        filling = fill_file(hired, database)
        with measuring(tmp_path) as slowness:
            serving, opened, by_status = hired.start(serve, database).hear(2 * PATIENCE)
    size = database.stat().st_size
    print(f"\n{TASKS} tasks, file {size / 1e6:.0f} MB: filled with {filling / 1e6:.0f} MB", end="")
    print(f", served after a kill with {serving / 1e6:.0f} MB, opened in {opened:.2f} s; {slowness}")
    assert by_status == {-2: TASKS - 10_000, 1: 10_000}
    assert max(filling, serving) < MOST_MEMORY
    assert opened < LONGEST_OPENING, slowness
