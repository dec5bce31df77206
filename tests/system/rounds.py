"""Rounds of submit, fail, retry, wait: how long each step came after its cause, by the events that the store has of it.

Two nodes take tasks and a client waits for them, each with an engine of its own, as so many processes would have them.
Nothing else happens in their store, so a wake-up that is lost is not made up for by the next: whoever does not look for
himself waits for ever. What the machine itself takes is measured beside it, and taken off.
"""

import asyncio
import os
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from ganger.assembly.embedded import open_engine
from ganger.core.errors import StoreUnavailable
from ganger.core.event import Event, Fact
from ganger.core.ids import NodeId, QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Fail, Succeed
from ganger.core.queue import Policy
from ganger.core.retry import Fixed, Retry, to_text
from ganger.core.state import Status
from ganger.core.task import Claimed, Kind, NewTask
from ganger.databases.sqlite import Rank
from ganger.databases.sqlite.peers import Peers
from ganger.engine.engine import Engine
from ganger.engine.store import EVENTS_TOPIC, Claim, Tend
from ganger.runtime.clock import SystemClock
from tests.system.harness import Line
from tests.system.harness_store import open_store

BACKOFF: Final = 30
FALLBACK: Final = 1_000
"""Milliseconds: the longest that a wait may take beyond its cause."""
GRACE: Final = 50
"""Milliseconds for what has to be done then: a claim, a settle, an answer, each of which is a commit."""
PATIENCE: Final = 60.0
_LEASE: Final = 600_000
_TICK: Final = 0.2
_USUAL: Final = 5
_REIGN: Final = 100
_LONGEST_REIGN: Final = 10.0
"""Commits that an owner sees before the next takes over, and seconds if there are not so many."""
_POLICY: Final = Policy(retry=to_text(Retry(3, Fixed(BACKOFF))))
_ONCE_MORE, _FOR_GOOD = b"once more", b"for good"
_EVERY: Final = 5
"""One round in so many is of a task that fails for good and is tried again as a new one."""


class Wait(NamedTuple):
    """What was waited for, since when (wall, ms), and for how long (ms)."""

    what: str
    since: int
    length: int


@dataclass
class Record:
    """Everything that was waited for in one world."""

    events: list[tuple[Event, int]] = field(default_factory=list)
    returned: dict[TaskId, int] = field(default_factory=dict)
    lags: list[tuple[int, int]] = field(default_factory=list)
    """When this process or the server was late by so much: what the machine does is no fault of a wake-up."""

    def late(self) -> list[Wait]:
        """Those that took too long."""
        return [wait for wait in self.waits() if wait.length > FALLBACK + GRACE + self._lag(wait)]

    def _lag(self, wait: Wait) -> int:
        return sum(late for at, late in self.lags if wait.since <= at <= wait.since + wait.length + late)

    def waits(self) -> list[Wait]:
        by_task: dict[TaskId, list[tuple[Fact, int, int]]] = defaultdict(list)
        for event, _ in self.events:
            for entry in event.entries:
                by_task[entry.task].append((event.fact, event.at, entry.status))
        followed = [Wait("event", event.at, heard - event.at) for event, heard in self.events]
        return [*followed, *(wait for task, told in by_task.items() for wait in self._waits_of(task, told))]

    def _waits_of(self, task: TaskId, told: Sequence[tuple[Fact, int, int]]) -> list[Wait]:
        moves = [each for each in told if each[0] is not Fact.READIED]
        causes = [at + (BACKOFF if status == Status.DELAYED else 0) for _, at, status in moves]
        claims = [(cause, at) for cause, (fact, at, _) in zip(causes, moves[1:], strict=False) if fact is Fact.CLAIMED]
        waits = [Wait("claim", cause, at - cause) for cause, at in claims]
        ended = [at for fact, at, _ in moves if fact is Fact.SETTLED]
        return [*waits, *(Wait("wait", at, self.returned[task] - at) for at in ended if task in self.returned)]


async def work(engine: Engine, name: str, queue: QueueId) -> None:
    """Take one task after the other; each fails as often as it says. A store that is away is asked again."""
    node: NodeId | None = None
    while True:
        with suppress(StoreUnavailable):
            if node is None:
                node = (await engine.nodes.register(Registration(name, name, lease=_LEASE))).id
            for claimed in await engine.wait_claim(Claim(node, (queue,), start=True)):
                await settle(engine, claimed)


async def settle(engine: Engine, claimed: Claimed) -> None:
    fails = claimed.spec == _FOR_GOOD or claimed.attempts == 0
    outcome = Fail(again=claimed.spec != _FOR_GOOD) if fails else Succeed()
    while True:
        with suppress(StoreUnavailable):
            await engine.settle([(claimed, outcome)])
            return


async def watch(engine: Engine, record: Record) -> None:
    """Note how long a step takes that nobody has to be woken for, and that does nothing."""
    loop, clock, over = asyncio.get_running_loop(), SystemClock(), asyncio.Event()
    while True:
        began = loop.time()
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), _TICK)
        with suppress(StoreUnavailable):
            await engine.store.tend(Tend(release=True))
        if (late := round(1_000 * (loop.time() - began - _TICK))) > _USUAL:
            record.lags.append((clock.wall(), late))


async def follow(engine: Engine, record: Record) -> None:
    clock, after = SystemClock(), None
    while True:
        with suppress(StoreUnavailable):
            async with aclosing(engine.subscribe(after)) as events:
                async for event in events:
                    after = event.position
                    record.events.append((event, clock.wall()))


async def go(engine: Engine, queue: QueueId, rounds: Iterator[int], record: Record) -> None:
    """Submit, wait, and try again what failed for good."""
    for number in rounds:
        spec = _ONCE_MORE if number % _EVERY else _FOR_GOOD
        key = f"{queue}.{number}.{id(record)}"
        new = NewTask(queue, Kind.PAYLOAD, spec, key=key, on_conflict="return")
        task = await _insist(engine, new)
        await _wait(engine, task, record)
        if spec == _FOR_GOOD:
            with suppress(StoreUnavailable):
                await _wait(engine, await engine.retry_final(task, by="test"), record)


async def _insist(engine: Engine, new: NewTask) -> TaskId:
    while True:
        with suppress(StoreUnavailable):
            return (await engine.submit([new])).ids[0]


async def _wait(engine: Engine, task: TaskId, record: Record) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE
    while loop.time() < end:
        with suppress(StoreUnavailable):
            waited = await engine.wait([task], end - loop.time())
            assert waited.done, f"task {task} has not ended: {await engine.explain(task)}"
            record.returned[task] = SystemClock().wall()
            return


async def make_queue(url: str) -> QueueId:
    async with open_engine(url) as engine:
        return (await engine.queues.ensure("rounds", _POLICY, by="test")).id


async def run_world(urls: Sequence[str], rounds: Iterator[int]) -> Record:
    """A world with a client and a node for each of the other ways to its store; several may share the rounds."""
    record = Record()
    queue = await make_queue(urls[0])
    async with AsyncExitStack() as stack:
        client, *engines = [
            await stack.enter_async_context(open_engine(url, upkeep=not index)) for index, url in enumerate(urls)
        ]
        busy = [work(engine, f"node-{index}", queue) for index, engine in enumerate(engines)]
        beside = [asyncio.create_task(one) for one in (*busy, follow(client, record), watch(client, record))]
        going = asyncio.create_task(go(client, queue, rounds, record))
        try:
            await asyncio.wait([going, *beside], return_when=asyncio.FIRST_COMPLETED)
            for one in beside:
                if one.done():
                    one.result()
            await going
        finally:
            for one in (going, *beside):
                one.cancel()
            await asyncio.gather(going, *beside, return_exceptions=True)
    return record


def describe(record: Record) -> str:
    """A line about all waits of a world."""
    lengths = sorted(wait.length for wait in record.waits()) or [0]
    some = sum(length > FALLBACK / 5 for length in lengths)
    lag = max((late for _, late in record.lags), default=0)
    return (
        f"{len(record.returned)} waits for tasks, {len(lengths)} waits in all, median {lengths[len(lengths) // 2]} ms, "
        f"{some} over 200 ms, longest {lengths[-1]} ms, the machine's own lag {lag} ms at most"
    )


def drop_wakes(share: float) -> None:
    """If this process comes to own the file, it does not tell the others of so much of what is committed."""
    wake, dice = Peers.wake, random.Random(os.getpid())

    def wake_some(peers: Peers, topics: Iterable[str]) -> None:
        wake(peers, [topic for topic in topics if dice.random() >= share])

    setattr(Peers, "wake", wake_some)  # noqa: B010


async def take_turns(line: Line, database: Path, name: str, share: float) -> None:
    """A process with a node."""
    drop_wakes(share)
    queue = await make_queue(f"sqlite:{database}")
    async with open_engine(f"sqlite:{database}", upkeep=False) as engine:
        line.say("open")
        await work(engine, name, queue)


async def wait_in_turns(line: Line, database: Path, rounds: int, share: float) -> None:
    """A process with the client; what it waited for."""
    drop_wakes(share)
    line.say(await run_world([f"sqlite:{database}"], iter(range(rounds))))
    await line.hear()


async def own_for_a_while(line: Line, database: Path, share: float) -> None:
    """A process that is handed the file, owns it for a hundred commits, and is killed or leaves then."""
    drop_wakes(share)
    store, some, told = await open_store(database, rank=Rank.SERVER), asyncio.Event(), 0

    def count(_: str) -> None:
        nonlocal told
        told += 1
        if told >= _REIGN:
            some.set()

    store.listen((EVENTS_TOPIC,), count)
    assert store.file.owns
    with suppress(TimeoutError):
        await asyncio.wait_for(some.wait(), _LONGEST_REIGN)
    line.say("owns")
    await line.hear()
    await store.close()
    line.say("left")
