"""Four processes fight over a few tasks, are stopped, continued and killed: every history of a lease has an order.

Each worker writes down what it asked and what it was told. For each task the histories of all of them are searched for
an order that a single lock with growing fences could have given; and a store that forgets its fences is caught.
"""

import asyncio
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec
import pytest

from ganger.core.lease import Renewal
from ganger.core.queue import Policy
from ganger.core.retry import Retry, to_text
from ganger.core.task import NewTask
from ganger.engine.store import Configure, QueueChange, Submission
from ganger.engine.stores.sqlite import SqliteStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing import Entry, LeaseModel, Outcome, Verdict, linearize, read_history
from ganger.testing.lease_model import LeaseOp, LeaseResult
from ganger.testing.linearizability import describe
from tests.chaos.harness import find_unsound, look_into, until
from tests.chaos.harness_leases import Part, find_late, lease_histories
from tests.chaos.harness_worker import Crew, Worker, crew

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

WORKERS: Final = 4
TASKS: Final = 10
LEASE: Final = 300
SECONDS: Final = 6.0
LONGEST: Final = 60.0
ENOUGH: Final = 80_000
"""Bytes of history: a machine that is slow or busy takes longer to write as much."""


async def make_tasks(path: Path, lives_by: str) -> list[int]:
    store = await SqliteStore.open(path, SystemClock(), SystemEntropy())
    policy = Policy(retry=to_text(Retry(max_crashes=0)))
    made = await store.configure(Configure(queue=QueueChange(name="work", policy=policy)))
    assert made.queue is not None
    task = NewTask(made.queue.id, "payload", renewal=lives_by, ttr=LEASE)
    done = await store.submit(Submission((task,) * TASKS))
    await store.close()
    return [int(number) for number in done.ids]


class Fight:
    """The workers of a run, and what is done to them."""

    def __init__(self, company: Crew, folder: Path, part: Part) -> None:
        self._company = company
        self._folder = folder
        self._part = part
        self._rng = random.Random(part.seed)
        self._hired = 0
        self._workers: list[Worker] = []
        self.done: Counter[str] = Counter()

    async def run(self, seconds: float) -> None:
        for _ in range(WORKERS):
            await self._hire()
        await self._until_all_work()
        until = time.monotonic() + seconds
        while time.monotonic() < until or (self._is_short() and time.monotonic() < until + LONGEST):
            await self._disturb(self._rng.choice(self._workers))
        for worker in self._workers:
            assert worker.process.stdin is not None
            worker.process.stdin.close()
            async with asyncio.timeout(60):
                assert await worker.process.wait() == 0

    def _is_short(self) -> bool:
        return sum(path.stat().st_size for path in self._folder.glob("*.history")) < ENOUGH

    async def _until_all_work(self) -> None:
        await until(lambda: sum(path.stat().st_size > 0 for path in self._folder.glob("*.history")) == WORKERS)

    async def _hire(self) -> None:
        self._hired += 1
        name = f"worker{self._hired}"
        part = msgspec.structs.replace(self._part, name=name, seed=self._part.seed + self._hired)
        arguments = (str(self._folder / f"{name}.history"), msgspec.json.encode(part).decode())
        path = self._folder / "store.db"
        self._workers.append(await self._company.hire(path, module="tests.chaos.harness_leases", arguments=arguments))

    async def _disturb(self, victim: Worker) -> None:
        """Let it run for a moment, then stop it for a part of a lease or for more than one; kill a few for good."""
        await asyncio.wait([asyncio.ensure_future(victim.process.wait())], timeout=self._rng.uniform(0.02, 0.2))
        assert victim.process.returncode is None, "a worker ended by itself"
        if self._rng.random() < 0.1:
            victim.signal(signal.SIGKILL)
            self.done["killed"] += 1
            self._workers.remove(victim)
            await self._hire()
            return
        victim.signal(signal.SIGSTOP)
        self.done["stopped"] += 1
        stopped_until = time.monotonic() + self._rng.uniform(0.2, 2.0) * LEASE / 1_000
        await until(lambda: time.monotonic() >= stopped_until)
        victim.signal(signal.SIGCONT)


def fight(folder: Path, lives_by: str, *, ignores_fences: bool = False, seconds: float = SECONDS) -> list[Entry]:
    async def scenario() -> None:
        tasks = await make_tasks(folder / "store.db", lives_by)
        part = Part("", 4, tasks, LEASE, lives_by, ignores_fences)
        async with crew() as company:
            run = Fight(company, folder, part)
            await run.run(seconds)
        assert run.done["stopped"] > 5

    asyncio.run(scenario())
    return [entry for path in sorted(folder.glob("*.history")) for entry in read_history(path)]


def verdicts(entries: list[Entry], model: LeaseModel) -> list[Verdict[LeaseOp, LeaseResult]]:
    return [linearize(model, history) for history in lease_histories(entries).values()]


def report(entries: list[Entry]) -> Counter[tuple[str, str]]:
    return Counter((entry.op, entry.outcome.value) for entry in entries)


@pytest.mark.parametrize("lives_by", [Renewal.TOUCH, Renewal.LIVENESS])
def test_every_history_of_a_lease_is_linearizable(lives_by: str, tmp_path: Path) -> None:
    entries = fight(tmp_path, lives_by)
    told = report(entries)
    assert told["acquire", "ok"] > 30, told
    assert told["renew", "fail"] > 0, told
    assert told["settle", "fail"] + told["release", "fail"] > 20, told
    grants = [(entry.keys, entry.result) for entry in entries if (entry.op, entry.outcome) == ("acquire", Outcome.OK)]
    assert len(set(grants)) == len(grants), "two grants share a fence"
    assert [describe(verdict) for verdict in verdicts(entries, LeaseModel()) if not verdict] == []
    assert lives_by != Renewal.TOUCH or find_late(entries, LEASE) == []
    with look_into(tmp_path / "store.db") as connection:
        assert find_unsound(connection) == []


def test_a_store_that_forgets_its_fences_is_caught(tmp_path: Path) -> None:
    entries = fight(tmp_path, Renewal.TOUCH, ignores_fences=True)
    broken = [verdict for verdict in verdicts(entries, LeaseModel()) if not verdict]
    assert len(broken) > 0, report(entries)
