"""A process that writes to a MongoDB store is killed at any moment: what it was told is true, and others go on."""

import asyncio
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import IO

import pytest

from ganger.core.event import Event
from ganger.core.ids import Position, TaskId
from ganger.core.state import Status
from ganger.engine.store import Submission, Tend
from ganger.engine.stores.mongo import MongoStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock
from ganger.testing.contracts.scene import Scene, plain

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(600)]
KILLS = 5
LONG = 3_600_000


@pytest.mark.parametrize("plugin", [None, "Demo"], ids=["own", "shared"])
def test_nothing_that_was_acknowledged_is_lost_and_no_step_stays_half_made(
    mongo_url: Callable[[], str], plugin: str | None
) -> None:
    asyncio.run(_live_through(mongo_url(), plugin))


async def _live_through(url: str, plugin: str | None) -> None:
    store = await MongoStore.open(url, SystemClock(), SystemEntropy())
    scene, chance = Scene(store, FakeClock()), random.Random(7)
    queue, node = await scene.queue(plugin=plugin), await scene.node(lease=LONG)
    kind = "payload" if plugin is None else f"plugin:{plugin}"
    had, ended = set[int](), set[int]()
    for _ in range(KILLS):
        words = [url, str(queue), str(node), kind]
        said = await asyncio.to_thread(_run_and_kill, words, chance.randint(1, 12))
        had |= said["had"]
        ended |= said["ended"]
        await store.submit(Submission((plain(queue, kind=kind),)))
    await _give_back(store)
    await _audit(store, had, ended)
    await store.close()


async def _give_back(store: MongoStore) -> None:
    """What was taken for a step that never came about goes back after a minute, which is over."""
    await store.database.handle.tasks.update_many({"ganger.pending": {"$gt": ""}}, {"$set": {"ganger.pended": 0}})
    await store.tend(Tend(release=True))


def _run_and_kill(words: list[str], lines: int) -> dict[str, set[int]]:
    """Let it write until it has said so much, and kill it in whatever it does then."""
    command = [sys.executable, "-m", "tests.chaos.mongo_writer", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = _read(process.stdout, lines)
        process.kill()
        for line in process.stdout:
            _note(said, line)
    return said


def _read(stream: IO[str], lines: int) -> dict[str, set[int]]:
    said: dict[str, set[int]] = {"had": set(), "ended": set()}
    for _ in range(lines):
        _note(said, stream.readline())
    return said


def _note(said: dict[str, set[int]], line: str) -> None:
    word, *ids = line.split() or [""]
    if word in said and line.endswith("\n"):
        said[word].update(map(int, ids))


async def _audit(store: MongoStore, had: set[int], ended: set[int]) -> None:
    assert had, "somebody was told something"
    found = await store.tasks([TaskId(task) for task in sorted(had)])
    assert None not in found, "every acknowledged task is there"
    for task in await store.tasks([TaskId(task) for task in sorted(ended)]):
        assert task is not None
        assert task.status == Status.SUCCEEDED
    events = await _read_events(store)
    assert [event.position for event in events] == list(range(1, len(events) + 1)), "no hole"
    (counts,), _ = await store.counts()
    last = {entry.task: entry.status for event in events for entry in event.entries}
    assert counts.by_status == dict(Counter(last.values())), "the events and the tasks say the same"


async def _read_events(store: MongoStore) -> list[Event]:
    found: list[Event] = []
    while page := await store.events(found[-1].position if found else Position(0), 1_000):
        found += page
    return found
