"""Two PostgreSQL stores live through the same, one of which makes no exchange in one round trip: nothing differs."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import pytest

from ganger.core.clock import Wall
from ganger.core.errors import GangerError
from ganger.core.event import Event
from ganger.core.graph import Edge
from ganger.core.ids import Fence, NodeId, Position, QueueId, TaskId
from ganger.core.lease import Renewal
from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.state import Move, move
from ganger.core.task import Claimed, NewTask
from ganger.engine.store import Claim, Configure, Exchange, Exchanged, NodeChange, QueueChange, Submission, Tend
from ganger.engine.stores.postgres import PostgresStore
from ganger.testing.clock import FakeClock
from tests.contract.test_postgres_together import open_many
from tests.servers.places import find_misplaced
from tests.servers.trips import watch_trips

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
SEEDS: Final = (1, 2, 3, 4)
TURNS: Final = 120
LEAST: Final = 20
"""So many exchanges of a story that settle or take something are made in one round trip, or it proves little."""
LONG: Final = 600_000
TABLES: Final = (
    "task",
    "ready",
    "lease",
    "attempt",
    "data",
    "edge",
    "follow",
    "node",
    "lane",
    "queue",
    "book",
    "event",
)


class Twin:
    """One of the two, and what it knows of the leases that it gave."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self.held: dict[int, Claimed] = {}

    async def exchange(self, request: Exchange) -> Exchanged | str:
        try:
            done = await self.store.exchange(request)
        except GangerError as error:
            return error.code
        refused = {index for index, _ in done.refused}
        for index, each in enumerate(request.moves):
            if index not in refused and each.rule != "start":
                self.held.pop(each.task, None)
        self.held |= {one.id: one for one in done.claimed}
        return done

    async def read(self) -> dict[str, list[Any]]:
        return {table: await self.store._read(_reading(table)) for table in TABLES}


def _reading(table: str) -> Callable[[Any], Awaitable[list[Any]]]:
    async def read(connection: Any) -> list[Any]:
        # The bytes of an event may differ, and what they say is compared apart.
        row = "to_jsonb(x) - 'entries'" if table == "event" else "to_jsonb(x)"
        return sorted(row[0] for row in await connection.fetch(f"SELECT ({row})::text FROM {table} AS x"))

    return read


class Story:
    """Told by the dice, to both at once."""

    def __init__(self, twins: Sequence[Twin], clock: FakeClock, seed: int) -> None:
        self.twins = twins
        self.clock = clock
        self.dice = random.Random(seed)
        self.queues: list[QueueId] = []
        self.nodes: list[NodeId] = []

    async def both(self, ask: Callable[[Twin], Awaitable[Any]]) -> Any:
        one, other = [await ask(twin) for twin in self.twins]
        assert one == other
        return one

    async def begin(self) -> None:
        for name, policy in (("plain", Policy()), ("keyed", Policy(max_per_key=2)), ("narrow", Policy(max_active=2))):
            self.queues.append(await self.configure(Configure(queue=QueueChange(name=name, policy=policy))))
        self.nodes = [await self.configure(_register("ada", None)), await self.configure(_register("bob", 6))]

    async def configure(self, request: Configure) -> Any:
        async def ask(twin: Twin) -> Any:
            try:
                done = await twin.store.configure(request)
            except GangerError as error:
                return error.code
            return None if (made := done.queue or done.node) is None else made.id

        return await self.both(ask)

    async def turn(self) -> None:
        (way,) = self.dice.choices((self.submit, self.exchange, self.disturb), (2, 9, 1))
        await way()
        self.clock.advance(self.dice.choice((0, 1, 40)))

    async def submit(self) -> None:
        made = tuple(self._task() for _ in range(self.dice.randint(1, 12)))

        async def ask(twin: Twin) -> Any:
            return (await twin.store.submit(Submission(made))).ids

        await self.both(ask)

    def _task(self) -> NewTask:
        dice, queue = self.dice, self.dice.choices(self.queues, (8, 1, 1))[0]
        task = NewTask(queue, dice.choice(("command", "function")), b"s" * dice.choice((0, 10, 10, 2_000, 70_000)))
        changes: tuple[dict[str, Any], ...] = (
            {}, {}, {}, {}, {}, {}, {"priority": dice.randint(1, 3)}, {"limit_key": "k"}, {"timeout": 7},
            {"retry": "0"},
            {"renewal": Renewal.TOUCH, "ttr": 5_000}, {"due": Wall(self.clock.wall() + dice.randint(1, 300))},
        )  # fmt: skip
        return task._replace(**dice.choice(changes))

    async def exchange(self) -> None:
        node = self.dice.choice(self.nodes)
        mine = sorted(task for task, one in self.twins[0].held.items() if one.holder == node)
        ended = tuple(self._end(task) for task in self.dice.sample(mine, self.dice.randint(0, len(mine))))
        queues = tuple(self.dice.sample(self.queues, self.dice.choice((0, 1, 1, 2))))
        plain = self.queues[:1] if self.dice.random() < 0.7 else queues
        claim = Claim(node, tuple(plain), self.dice.randint(1, 10), start=self.dice.random() < 0.6, length=9_000)
        request = Exchange(ended, claim if self.dice.random() < 0.9 else None, self.dice.random() < 0.1)
        await self.both(lambda twin: twin.exchange(request))

    def _end(self, task: int) -> Move:
        one = self.twins[0].held[task]
        rule = self.dice.choices(("succeed", "fail", "retry", "start"), (30, 1, 1, 1))[0]
        fence = Fence(one.fence - 1) if self.dice.random() < 0.02 else one.fence
        return move(one.id, rule, fence)._replace(result=self.dice.choice((None, None, b"", b"done")))

    async def disturb(self) -> None:
        """Something changes between two exchanges, and changes back."""
        name, queue = self.dice.choice(("ada", "bob")), self.queues[0]
        node = self.nodes[0 if name == "ada" else 1]
        beat = Configure(node=NodeChange(node, name, beat=True))
        there, back = self.dice.choice((
            (beat, beat),
            (Configure(node=NodeChange(node, name, drain=True)), Configure(node=NodeChange(node, name, resume=True))),
            (_register(name, 3), _register(name, None)),
            (_change(queue, paused_until=Wall(self.clock.wall() + 20)), _change(queue, paused_until=Wall(0))),
            (_change(queue, policy=Policy(becomes=self.queues[1])), _change(queue, policy=Policy())),
            (_change(queue, policy=Policy(max_per_node=1)), _change(queue, policy=Policy())),
        ))  # fmt: skip
        await self.configure(there)
        await self.exchange()
        await self.configure(back)
        await self.both(self._tend)
        if held := sorted(self.twins[0].held):
            await self._add_child(TaskId(self.dice.choice(held)))

    async def _tend(self, twin: Twin) -> Any:
        return await twin.store.tend(Tend(lapse=True, promote=True))

    async def _add_child(self, parent: TaskId) -> None:
        child = NewTask(self.queues[0], "command", parents=(Edge(parent),))

        async def ask(twin: Twin) -> Any:
            return (await twin.store.submit(Submission((child,)))).ids

        await self.both(ask)

    async def compare(self) -> None:
        one, other = [await twin.read() for twin in self.twins]
        for table in TABLES:
            assert one[table] == other[table], table
        told = [await _read_events(twin.store) for twin in self.twins]
        assert told[0] == told[1]
        assert [await twin.store._read(find_misplaced) for twin in self.twins] == [[], []]


def _register(name: str, slots: int | None) -> Configure:
    return Configure(node=NodeChange(register=Registration(name, name, slots=slots, lease=LONG)))


def _change(queue: QueueId, **change: Any) -> Configure:
    return Configure(queue=QueueChange(queue, **change))


async def _read_events(store: PostgresStore) -> list[Event]:
    return await store.events(Position(0), 100_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_exchange_in_one_round_trip_is_what_a_step_is(
    postgres_url: Callable[[], str], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = watch_trips(monkeypatch)

    async def tell() -> None:
        clock = FakeClock()
        async with open_many(postgres_url(), 1, clock) as (quick,), open_many(postgres_url(), 1, clock) as (slow,):
            monkeypatch.setattr(slow._presuming, "presume", lambda _: None)
            story = Story([Twin(quick), Twin(slow)], clock, seed)
            await story.begin()
            for _ in range(TURNS):
                await story.turn()
            await story.compare()

    asyncio.run(tell())
    assert len(made) >= LEAST
