"""SIGKILL at any moment, of anybody, the owner more often than not, while four processes work on one file.

The number of kills is the environment's GANGER_TEST_KILLS: a night's worth of them is

    GANGER_TEST_KILLS=10000 python -m pytest -s tests/chaos/test_random_kills.py
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Final

import pytest

from ganger.core.ids import QueueId
from ganger.core.queue import Policy, with_retry
from ganger.core.retry import FOREVER, Retry
from ganger.databases.sqlite.nameplate import read_nameplate
from ganger.databases.sqlite.place import Place
from ganger.engine.store import Query
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing import Entry, Outcome, audit
from tests.chaos import books
from tests.chaos.bustle import bustle
from tests.chaos.paths import EVERYTHING
from tests.system.harness import Crew, Member, crew
from tests.system.harness_store import found, open_store

KILLS: Final = int(os.environ.get("GANGER_TEST_KILLS", "500"))
pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(240 + 2 * KILLS)]

PROCESSES: Final = 4
SHORTEST, LONGEST = 0.02, 0.15
OWNER_SHARE: Final = 0.7

Run = tuple[int, str]
"""A fence, and the client that ran under it."""


@dataclass
class Massacre:
    """Kills, one after another, and a new process for each that was killed."""

    database: Path
    queue: QueueId
    crew: Crew
    rng: random.Random
    alive: dict[str, Member] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)
    owners: int = 0
    started: int = 0

    def start(self) -> None:
        self.started += 1
        who = f"w{self.started}"
        self.alive[who] = self.crew.start(bustle, self.database, who, self.queue)

    def kill_one(self) -> None:
        dead = wait([member.sentinel for member in self.alive.values()], self.rng.uniform(SHORTEST, LONGEST))
        assert not dead, "a process ended that nobody killed"
        owner = self._owner()
        use_owner = owner is not None and self.rng.random() < OWNER_SHARE
        victim = owner if owner is not None and use_owner else self.rng.choice(sorted(self.alive))
        self.owners += victim == owner
        self.killed.add(victim)
        member = self.alive.pop(victim)
        member.kill()
        self.crew.bury(member)
        self.start()

    def _owner(self) -> str | None:
        plate = read_nameplate(Place.of(self.database))
        return next((who for who, member in self.alive.items() if plate is not None and member.pid == plate.pid), None)

    def stop(self) -> None:
        for member in self.alive.values():
            member.tell("stop")
        for member in self.alive.values():
            assert member.hear() == ("stopped",)


def test_no_kill_loses_or_doubles_anything(tmp_path: Path) -> None:
    database = tmp_path / "ganger.db"
    with crew() as hired:
        queue = asyncio.run(found(database, with_retry(Policy(), Retry(max_crashes=FOREVER))))
        massacre = Massacre(database, queue, hired, random.Random(2))
        for _ in range(PROCESSES):
            massacre.start()
        for _ in range(KILLS):
            massacre.kill_one()
        massacre.stop()
    assert massacre.owners * 2 >= KILLS
    asyncio.run(check_everything(database, massacre))


async def check_everything(database: Path, massacre: Massacre) -> None:
    store = await open_store(database)
    await books.check_counts(store)
    await books.end_everything(store)
    histories = books.read_histories(database.parent)
    tasks = (await find_all(store, massacre.queue)).items()
    kept = audit(histories, [key for key, _ in tasks])
    print(f"\nkilled {len(massacre.killed)}, of them owners {massacre.owners}\n{kept}")
    assert kept.balanced, str(kept)
    assert len(kept.acknowledged) > 2 * KILLS
    entries = [entry for history in histories for entry in history]
    check_runs(entries, massacre.killed)
    await check_settles(store, entries, dict(tasks))
    await store.close()


async def find_all(store: SqliteStore, queue: QueueId) -> dict[str, int]:
    """Every task by its key. The index refuses the same key twice; it is looked for all the same."""
    page = await store.find(Query(queue=queue, most=EVERYTHING))
    keys = Counter(task.key for task in page.tasks)
    assert keys.total() == len(keys)
    return {str(task.key): task.id for task in page.tasks}


def check_runs(entries: Sequence[Entry], killed: set[str]) -> None:
    """Nobody ran under another's lease, and a task ran again only after the process that had it was killed."""
    runs: dict[str, list[Run]] = {}
    for entry in entries:
        if entry.op == "run":
            for key, fence in zip(entry.keys, entry.args, strict=True):
                runs.setdefault(str(key), []).append((fence, entry.client))
    for key, times in runs.items():
        fences = [fence for fence, _ in times]
        assert len(set(fences)) == len(fences), f"{key} was run twice under one fence"
        unexplained = [client for _, client in sorted(times)[:-1] if client not in killed]
        assert not unexplained, f"{key} ran again although {unexplained} lived on"


async def check_settles(store: SqliteStore, entries: Sequence[Entry], tasks: dict[str, int]) -> None:
    """A settle that was acknowledged is in the task's history, under its fence."""
    ended = set(await store.file.read(lambda connection: connection.execute(_SUCCEEDED).fetchall()))
    for entry in entries:
        if entry.op == "settle" and entry.outcome is Outcome.OK:
            pairs = [(tasks[str(key)], fence) for key, fence in zip(entry.keys, entry.args, strict=True)]
            lost = [pair for index, pair in enumerate(pairs) if index not in entry.result and pair not in ended]
            assert not lost, f"{entry.client} was told that these are settled: {lost}"


_SUCCEEDED: Final = "SELECT task, fence FROM attempt WHERE outcome = 'succeed'"
