"""What must hold of a file when all is over, whoever died: everything ends, once, and every count is true."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import apsw

from ganger.core.audit import Act, verify
from ganger.core.errors import NodeGone
from ganger.core.event import Event, Fact
from ganger.core.ids import Position
from ganger.core.outcome import after_loss
from ganger.core.state import Move, is_final
from ganger.engine.store import Claim, Configure, Exchange, Lapsed, NodeChange, Tend
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing import Books, Entry, audit, read_history
from tests.chaos.paths import EVERYTHING, Seeded, find_traces, traced
from tests.system.harness import PATIENCE
from tests.system.harness_store import register, succeed

AT_ONCE: Final = 500


def read_histories(folder: Path) -> list[Sequence[Entry]]:
    return [read_history(file) for file in sorted(folder.glob("*.history"))]


async def balance(store: SqliteStore, folder: Path, seeded: Seeded, name: str) -> Books:
    """The books of one write path: what its clients were told against the traces in the store."""
    histories = read_histories(folder)
    entries = [entry for history in histories for entry in history]
    found = await find_traces(store, seeded)
    return audit(histories, traced(found, name, entries), submit=name)


async def end_everything(store: SqliteStore) -> None:
    """Let the dead go, run every task to its end, and look at how they ended."""
    await _dismiss_nodes(store)
    await _drain(store)
    await check_counts(store)
    await _check_ends(store)


async def _dismiss_nodes(store: SqliteStore) -> None:
    """Let every node leave that is still here: what it held is free then."""
    for node in (await store.directory()).nodes:
        if node.here:
            change = NodeChange(node.id, leave=True)
            with suppress(NodeGone):
                await store.configure(Configure(node=change, act=Act("drain", "leave")))


async def _drain(store: SqliteStore) -> None:
    """Run everything to its end."""
    node = await register(store, "drain")
    async with asyncio.timeout(PATIENCE):
        while not await _all_final(store):
            await tend_once(store)
            queues = tuple(queue.id for queue in (await store.directory()).queues)
            claim = Claim(node.id, queues, most=AT_ONCE, start=True)
            done = await store.exchange(Exchange(claim=claim))
            while done.claimed:
                done = await store.exchange(Exchange(succeed(done.claimed), claim))


async def _all_final(store: SqliteStore) -> bool:
    counts, _ = await store.counts()
    return all(is_final(status) for one in counts for status in one.by_status)


async def tend_once(store: SqliteStore) -> None:
    """One round of upkeep: promote, release, and take back the leases that have ended."""
    await store.tend(Tend(promote=True))
    await store.tend(Tend(release=True))
    tended = await store.tend(Tend(lapse=True))
    if tended.lapsed:
        await store.exchange(Exchange(tuple(map(_loss, tended.lapsed))))


def _loss(lapsed: Lapsed) -> Move:
    return after_loss(
        lapsed.task,
        lapsed.fence,
        started=lapsed.started,
        left=lapsed.left,
        crashes=lapsed.crashes,
        retry=lapsed.retry,
        on_lost=lapsed.on_lost,
        kill=lapsed.kill,
        holder=lapsed.holder,
    )


async def check_counts(store: SqliteStore) -> None:
    """Every count is the real one, the file and its audit log are sound."""
    events = await store.events(Position(0), EVERYTHING)
    rows = await store.file.read(_Rows)
    assert rows.sound == ["ok"]
    assert rows.tallied == rows.counted, "the tally is not what is there"
    assert rows.told == _tell_facts(events), "the counters are not what was told"
    lines = await store.audit(Position(0), EVERYTHING)
    assert verify(lines)[0] == len(lines)


async def _check_ends(store: SqliteStore) -> None:
    """Now that everything is final: every task ended once, and every lease has its row."""
    events = await store.events(Position(0), EVERYTHING)
    rows = await store.file.read(_Rows)
    _check_facts(events, rows.tasks)
    _check_leases(events, rows.leases)


class _Rows:
    def __init__(self, connection: apsw.Connection) -> None:
        run = connection.execute
        self.sound = [text for (text,) in run("PRAGMA integrity_check")]
        self.tallied = sorted(run("SELECT queue, status, n FROM tally WHERE n <> 0"))
        self.counted = sorted(run("SELECT queue, status, count(*) FROM task GROUP BY queue, status"))
        self.told = sorted(run("SELECT queue, fact, n FROM counter WHERE n <> 0"))
        self.tasks = {task for (task,) in run("SELECT id FROM task")}
        self.leases = Counter(run("SELECT task, fence FROM attempt"))


def _tell_facts(events: Sequence[Event]) -> list[tuple[int, str, int]]:
    told: Counter[tuple[int, str]] = Counter()
    for event in events:
        told[event.queue, event.fact.value] += len(event.entries)
    return sorted((queue, fact, n) for (queue, fact), n in told.items() if n)


def _check_facts(events: Sequence[Event], tasks: set[int]) -> None:
    ends = Counter(entry.task for event in events for entry in event.entries if is_final(entry.status))
    assert ends.keys() == tasks, "a task has no end, or an end has no task"
    assert not [task for task, times in ends.items() if times > 1], "a task ended twice"
    readied = Counter(entry.task for event in events if event.fact == Fact.READIED for entry in event.entries)
    assert not [task for task, times in readied.items() if times > 1], "a task was released twice"


def _check_leases(events: Sequence[Event], leases: Counter[tuple[int, int]]) -> None:
    told = [event for event in events if event.fact == Fact.CLAIMED]
    claims = Counter((entry.task, entry.fence) for event in told for entry in event.entries)
    assert claims == leases, "a lease was given twice, or has no row"
