"""Parents that end at once in several processes release each child exactly once, and a join may be of any size.

The large join has the environment's GANGER_TEST_JOIN parents. The full one:

    GANGER_TEST_JOIN=1000000 python -m pytest -s tests/system/test_join.py
"""

import asyncio
import os
import random
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from ganger.core.event import Event, Fact
from ganger.core.graph import Edge, Join
from ganger.core.ids import Position, QueueId, TaskId
from ganger.core.node import Node
from ganger.core.state import Move, Status, move
from ganger.core.task import Claimed, Kind, NewTask
from ganger.engine.store import Claim, Exchange, Submission, Tend
from ganger.engine.stores.sqlite import SqliteStore
from tests.system.harness import PATIENCE, Line, crew
from tests.system.harness_store import make_queue, open_store, register, succeed

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(600)]

PARENTS: Final = 4_000
CHILDREN: Final = 2_000
PROCESSES: Final = 4
FAILING: Final = 7
"""Every parent whose id is a multiple of it fails."""

LARGE: Final = int(os.environ.get("GANGER_TEST_JOIN", "200000"))
CHUNK: Final = 10_000
AT_ONCE: Final = 2_000


class Family(NamedTuple):
    child: TaskId
    parents: tuple[TaskId, ...]
    join: str


async def make_families(database: Path) -> tuple[QueueId, list[Family]]:
    """Children of two to six parents each; the parents have a queue of their own."""
    store, rng = await open_store(database), random.Random(3)
    above, below = await make_queue(store, "parents"), await make_queue(store, "children")
    parents = (await store.submit(Submission((NewTask(above, Kind.PAYLOAD),) * PARENTS))).ids
    plans = [(tuple(rng.sample(parents, rng.randint(2, 6))), rng.choice([*Join])) for _ in range(CHILDREN)]
    tasks = [NewTask(below, Kind.PAYLOAD, parents=tuple(map(Edge, chosen)), join=join) for chosen, join in plans]
    children = (await store.submit(Submission(tuple(tasks)))).ids
    await store.close()
    return above, [Family(child, *plan) for child, plan in zip(children, plans, strict=True)]


async def settle_parents(line: Line, database: Path, queue: QueueId, number: int) -> None:
    """Claim and settle parents in batches of any size until there are none."""
    store, rng = await open_store(database), random.Random(number)
    node, settled = await register(store, f"node-{number}"), 0
    line.say("open")
    await line.hear()
    claimed = await exchange(store, node, queue, (), rng.randint(1, 30))
    while claimed:
        settled += len(claimed)
        claimed = await exchange(store, node, queue, claimed, rng.randint(1, 30))
    line.say(settled)
    await line.hear()
    await store.close()


async def exchange(
    store: SqliteStore, node: Node, queue: QueueId, claimed: Sequence[Claimed], most: int
) -> list[Claimed]:
    claim = Claim(node.id, (queue,), most=most, start=True)
    done = await store.exchange(Exchange(tuple(map(settle, claimed)), claim))
    assert not done.refused
    return done.claimed


def settle(claimed: Claimed) -> Move:
    return move(claimed.id, "succeed" if claimed.id % FAILING else "fail", claimed.fence)


def expect(family: Family) -> Fact:
    """What must become of a child, once, now that all its parents have ended."""
    good = [parent for parent in family.parents if parent % FAILING]
    ready = bool(good) if family.join == Join.ANY else len(good) == len(family.parents)
    return Fact.READIED if ready else Fact.CANCELLED


async def read_fates(database: Path) -> dict[TaskId, list[Fact]]:
    store = await open_store(database)
    events = await store.events(Position(0), most=1_000_000)
    await store.close()
    return collect_fates(events)


def collect_fates(events: Sequence[Event]) -> dict[TaskId, list[Fact]]:
    fates: dict[TaskId, list[Fact]] = {}
    for event in events:
        if event.fact in (Fact.READIED, Fact.CANCELLED):
            for entry in event.entries:
                fates.setdefault(entry.task, []).append(event.fact)
    return fates


def test_each_child_of_parents_that_four_processes_settle_meets_its_fate_once(tmp_path: Path) -> None:
    database = tmp_path / "ganger.db"
    queue, families = asyncio.run(make_families(database))
    with crew() as hired:
        members = [hired.start(settle_parents, database, queue, number) for number in range(PROCESSES)]
        for member in members:
            assert member.hear() == ("open",)
        for member in members:
            member.tell("go")
        settled = [member.hear()[0] for member in members]
    assert sum(settled) == PARENTS
    assert min(settled) > PARENTS // (4 * PROCESSES), "one process did it all"
    assert asyncio.run(read_fates(database)) == {family.child: [expect(family)] for family in families}


async def join_many(line: Line, database: Path, size: int) -> None:
    """Submit the parents, then the child that waits for all of them, and settle the parents."""
    store, marks = await open_store(database), [time.monotonic()]
    above, below = await make_queue(store, "parents"), await make_queue(store, "child")
    ids: list[TaskId] = []
    while len(ids) < size:
        ids += (await store.submit(Submission((NewTask(above, Kind.PAYLOAD),) * CHUNK))).ids
    marks.append(time.monotonic())
    joined = NewTask(below, Kind.PAYLOAD, parents=tuple(map(Edge, ids)))
    child = (await store.submit(Submission((joined,)))).ids[0]
    marks.append(time.monotonic())
    early = await settle_many(store, above, child)
    marks.append(time.monotonic())
    (task,) = await store.tasks([child])
    line.say(task, early, marks, 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    await line.hear()
    await store.close()


async def settle_many(store: SqliteStore, queue: QueueId, child: TaskId) -> list[int]:
    """Settle all parents, and follow the edges that these steps left; what the child's status was before each batch."""
    node, seen = await register(store, "node"), []
    claim = Claim(node.id, (queue,), most=AT_ONCE, start=True)
    claimed = (await store.exchange(Exchange(claim=claim))).claimed
    while claimed:
        seen += [task.status for task in await store.tasks([child]) if task is not None]
        claimed = (await store.exchange(Exchange(succeed(claimed), claim))).claimed
    while (await store.tend(Tend(release=True))).more:
        pass
    return seen


def test_a_child_of_very_many_parents_waits_for_the_last_of_them(tmp_path: Path) -> None:
    with crew() as hired:
        member = hired.start(join_many, tmp_path / "ganger.db", LARGE)
        task, early, marks, memory = member.hear(PATIENCE + LARGE / 2_000)
    names = ("submit parents", "submit child", "settle parents")
    for name, start, end in zip(names, marks, marks[1:], strict=False):
        print(f"\n{name:>16} {end - start:7.1f} s", end="")
    print(f"\n{'peak memory':>16} {memory / 1e6:7.0f} MB")
    assert set(early) == {Status.BLOCKED}
    assert (task.status, task.waits) == (Status.QUEUED, 0)
