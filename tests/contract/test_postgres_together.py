"""Several PostgreSQL stores on one schema: what they do at once is as if one did it after another."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import pytest

from ganger.core.clock import Clock, Entropy
from ganger.core.event import Event, Fact
from ganger.core.graph import Edge
from ganger.core.ids import Fence, NodeId, Position, QueueId, TaskId
from ganger.core.state import LEASED, Move, Status, Verdict, is_final, move
from ganger.core.task import NewTask, OnConflict
from ganger.databases.postgres import HandedTime, read_address
from ganger.engine.store import Chunk, Claim, Datum, Exchange, Note, Progress, Submission, Tend, Touch
from ganger.engine.stores.postgres import PostgresStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock
from ganger.testing.contracts.scene import Scene, plain
from tests.servers.postgres import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
NODES = 8
LONG = 600_000
"""A lease that lasts however long the machine takes: nobody beats here."""


@asynccontextmanager
async def open_many(url: str, n: int, clock: Clock | None = None) -> AsyncIterator[list[PostgresStore]]:
    """As many stores as so many processes would have: nothing is shared but the schema."""
    handed = None if clock is None else HandedTime(clock)
    entropy: Entropy = SystemEntropy()
    async with AsyncExitStack() as stack:
        opening = (PostgresStore.open(url, clock or SystemClock(), entropy, timekeeper=handed) for _ in range(n))
        stores = await asyncio.gather(*opening)
        for store in stores:
            stack.push_async_callback(store.close)
        yield stores


def scene(store: PostgresStore, clock: FakeClock | None = None) -> Scene:
    return Scene(store, clock or FakeClock())


def run(url: str, tell: Callable[[list[PostgresStore]], Awaitable[None]], n: int = NODES) -> None:
    async def story() -> None:
        async with open_many(url, n) as stores:
            await tell(stores)

    asyncio.run(story())


async def drain(store: PostgresStore, node: NodeId, queue: QueueId, most: int) -> Counter[int]:
    """Take and end tasks until there is nothing more; how often each was had."""
    had: Counter[int] = Counter()
    moves: tuple[Move, ...] = ()
    while True:
        done = await store.exchange(Exchange(moves, Claim(node, (queue,), most)))
        assert done.refused == []
        had.update(one.id for one in done.claimed)
        moves = tuple(move(one.id, "succeed", one.fence) for one in done.claimed)
        if not moves and not done.waiting:
            return had


async def read_events(store: PostgresStore) -> list[Event]:
    found: list[Event] = []
    while page := await store.events(found[-1].position if found else Position(0), 1_000):
        found += page
    return found


def most_at_once(events: list[Event]) -> int:
    """The largest number of leases that there ever were at one moment."""
    leased: set[int] = set()
    most = 0
    for event in events:
        for entry in event.entries:
            (leased.add if entry.status in LEASED else leased.discard)(entry.task)
        most = max(most, len(leased))
    return most


def test_what_many_submit_and_take_at_once_is_had_once_each_and_told_in_order(postgres_url: Callable[[], str]) -> None:
    async def tell(stores: list[PostgresStore]) -> None:
        first = scene(stores[0])
        queue = await first.queue()
        nodes = [await first.node(f"n{number}", lease=LONG) for number in range(4)]
        ended = asyncio.Event()

        async def submit(store: PostgresStore) -> list[TaskId]:
            return [task for _ in range(40) for task in (await store.submit(Submission((plain(queue),) * 5))).ids]

        async def watch(store: PostgresStore) -> list[Event]:
            """Follow the log as it grows: nothing may ever come to light below what was seen."""
            seen: list[Event] = []
            while not ended.is_set() or await store.events(seen[-1].position if seen else Position(0), 1):
                seen += await store.events(seen[-1].position if seen else Position(0), 100)
            return seen

        async def work() -> tuple[list[list[TaskId]], Counter[int]]:
            submitted = asyncio.gather(*(submit(store) for store in stores[:4]))
            had: Counter[int] = Counter()
            pairs = list(zip(stores[4:], nodes, strict=True))
            while not submitted.done() or sum(had.values()) < 800:
                rounds = (drain(store, node, queue, 7) for store, node in pairs)
                had += sum(await asyncio.gather(*rounds), Counter())
            ended.set()
            return await submitted, had

        (submitted, had), seen = await asyncio.gather(work(), watch(stores[0]))
        ids = [task for part in submitted for task in part]
        assert had == Counter(ids)
        assert all(part == sorted(part) for part in submitted)
        assert [event.position for event in seen] == list(range(1, len(seen) + 1)), "no hole, and none too late"
        told = [entry.task for event in seen if event.fact == Fact.SUBMITTED for entry in event.entries]
        assert told == sorted(ids), "tasks are told in the order of their ids"

    run(postgres_url(), tell)


def test_one_key_is_one_task_whoever_submits_it_first(postgres_url: Callable[[], str]) -> None:
    async def tell(stores: list[PostgresStore]) -> None:
        queue = await scene(stores[0]).queue()
        task = NewTask(queue, "command", key="the one", on_conflict=OnConflict.RETURN)
        done = await asyncio.gather(*(store.submit(Submission((task,))) for store in stores for _ in range(5)))
        assert len({one.ids[0] for one in done}) == 1
        assert sum(not one.existing for one in done) == 1

    run(postgres_url(), tell)


def test_the_child_of_parents_that_end_at_one_moment_is_released_once(postgres_url: Callable[[], str]) -> None:
    async def tell(stores: list[PostgresStore]) -> None:
        first = scene(stores[0])
        queue, node = await first.queue(), await first.node()
        parents = await first.submit(*[plain(queue)] * NODES)
        child = await first.add(queue, parents=tuple(Edge(parent) for parent in parents))
        held = await first.claim(node, queue, most=NODES)
        settles = (
            store.exchange(Exchange((move(one.id, "succeed", one.fence),)))
            for store, one in zip(stores, held, strict=True)
        )
        assert [done.refused for done in await asyncio.gather(*settles)] == [[]] * NODES
        assert await first.statuses(child) == [Status.QUEUED]
        assert await first.facts(child) == [Fact.SUBMITTED, Fact.READIED]

    run(postgres_url(), tell)


def test_of_many_who_end_one_lease_at_once_one_does(postgres_url: Callable[[], str]) -> None:
    async def tell(stores: list[PostgresStore]) -> None:
        first = scene(stores[0])
        queue, node = await first.queue(), await first.node()
        for _ in range(5):
            held = await first.take(node, await first.add(queue))
            rules = ["succeed", "fail", "retry", "release"] * 2
            ends = (
                store.exchange(Exchange((move(held.id, rule, held.fence),)))
                for store, rule in zip(stores, rules, strict=True)
            )
            done = await asyncio.gather(*ends)
            assert sum(not one.refused for one in done) == 1
            assert len((await stores[1].look(held.id)).attempts) == 1

    run(postgres_url(), tell)


def test_tasks_of_a_full_key_never_run_at_once(postgres_url: Callable[[], str]) -> None:
    async def tell(stores: list[PostgresStore]) -> None:
        first = scene(stores[0])
        queue = await first.queue(max_per_key=1)
        nodes = [await first.node(f"n{number}", lease=LONG) for number in range(4)]
        tasks = await first.submit(*[plain(queue, limit_key="k")] * 60)
        had: Counter[int] = Counter()
        while sum(had.values()) < 60:
            rounds = (drain(store, node, queue, 3) for store, node in zip(stores, nodes, strict=False))
            had += sum(await asyncio.gather(*rounds), Counter())
        assert had == Counter(tasks)
        assert most_at_once(await read_events(stores[0])) == 1

    run(postgres_url(), tell, 4)


def test_a_holder_that_comes_back_too_late_can_write_nothing(postgres_url: Callable[[], str]) -> None:
    """The late one remembers its lease; another store has taken the task back and given it away again."""

    async def story() -> None:
        clock = FakeClock()
        async with open_many(postgres_url(), 2, clock) as (late, other):
            old, new = Scene(late, clock), Scene(other, clock)
            queue, slow = await old.queue(), await old.node("slow", lease=1_000)
            task = await old.add(queue)
            held = await old.take(slow, task)
            clock.advance(1_000)
            assert [one.task for one in await new.lapse()] == [task]
            await new.make("lose", task)
            again = await new.take(await new.node("quick"), task)
            assert again.fence > held.fence
            for rule in ("start", "succeed", "fail", "retry", "release", "bury"):
                assert await old.apply(move(task, rule, held.fence)) == [(0, Verdict.STALE)]
            said = (Touch(), Progress(1.0, "x"), Datum("k", b"v"), Chunk("stdout", 0, b"x"))
            notes = [Note(task, held.fence)._replace(**{type(one).__name__.lower(): one}) for one in said]  # type: ignore[arg-type]
            assert await old.write(*notes) == [(index, Verdict.STALE) for index in range(4)]
            await new.settle("succeed", again)
            assert await old.apply(move(task, "succeed", Fence(held.fence))) == [(0, Verdict.STALE)]
            assert is_final((await new.task(task)).status)

    asyncio.run(story())


def test_a_node_that_fell_silent_is_found_by_the_servers_clock(postgres_url: Callable[[], str]) -> None:
    """By a process that has only just come, too, once it has watched that clock for the length of the lease."""
    length = 2_000

    async def tell(stores: list[PostgresStore]) -> None:
        mine, clock = scene(stores[0]), SystemClock()
        queue, node = await mine.queue(), await mine.node(lease=length)
        held = await mine.take(node, await mine.add(queue))
        given = clock.now()
        async with open_many(url, 1) as (late,), asyncio.timeout(60):
            while not (tended := await late.tend(Tend(lapse=True))).lapsed:
                assert tended.next_at is not None
                assert given <= tended.next_at <= clock.now() + length + 50, "a moment of this machine"
                await asyncio.sleep((tended.next_at - clock.now() + 1) / 1_000)
            assert [one.task for one in tended.lapsed] == [held.id]
            assert clock.now() - given >= length - 1
            assert await mine.apply(move(held.id, "succeed", held.fence)) == [(0, Verdict.STALE)]

    url = postgres_url()
    run(url, tell, 1)


def test_a_claim_and_a_loss_of_its_node_leave_no_lease_behind(postgres_url: Callable[[], str]) -> None:
    """Whoever claims while its node is being lost either gets nothing, or has what lapses then."""

    async def story() -> None:
        clock = FakeClock()
        async with open_many(postgres_url(), 2, clock) as (one, other):
            mine, theirs = Scene(one, clock), Scene(other, clock)
            queue = await mine.queue()
            await mine.submit(*[plain(queue)] * 20)
            for number in range(10):
                node = await mine.node(f"n{number}", lease=1_000)
                clock.advance(999)
                claim = asyncio.ensure_future(one.exchange(Exchange(claim=Claim(node, (queue,), 2))))
                await asyncio.sleep(0)
                clock.advance(1)
                await asyncio.gather(theirs.lapse(), claim, return_exceptions=True)
                for lapsed in await theirs.lapse():
                    await theirs.make("lose", lapsed.task)
            clock.advance(1_000)
            for lapsed in await theirs.lapse():
                await theirs.make("lose", lapsed.task)
            (counts,), _ = await one.counts()
            assert counts.by_status == {Status.QUEUED: 20}

    asyncio.run(story())


def test_a_process_whose_receipts_were_taken_away_gets_new_ones(postgres_url: Callable[[], str]) -> None:
    url = postgres_url()

    async def tell(stores: list[PostgresStore]) -> None:
        first = scene(stores[0])
        queue = await first.queue()
        await command(url, "DELETE FROM receipt")
        assert await first.submit(plain(queue)) == [1]
        assert await first.submit(plain(queue)) == [2]

    run(url, tell, 1)


def test_a_role_that_may_only_read_and_write_is_enough(postgres: object, postgres_url: Callable[[], str]) -> None:
    if not isinstance(postgres, PostgresServer):
        pytest.skip("roles are made only on a server of the tests' own")
    url = postgres_url()
    schema = read_address(url).schema
    worker = url.replace("//tests@", f"//{schema}@")

    async def story() -> None:
        async with open_many(url, 1):
            pass
        await command(
            url,
            f"CREATE ROLE {schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {schema};"
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema};"
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {schema}",
        )
        async with open_many(worker, 1) as (store,):
            alone = scene(store)
            queue, node = await alone.queue(), await alone.node()
            await alone.finish(node, "succeed", await alone.add(queue, limit_key="k"))
            await alone.submit(*[plain(queue)] * 6)
            assert await drain(store, node, queue, 2) == Counter(range(2, 8))

    asyncio.run(story())


def test_a_role_that_owns_its_schema_can_make_the_tables(postgres: object, postgres_url: Callable[[], str]) -> None:
    if not isinstance(postgres, PostgresServer):
        pytest.skip("roles are made only on a server of the tests' own")
    url = postgres_url()
    schema = read_address(url).schema

    async def story() -> None:
        await command(url, f"CREATE ROLE {schema} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {schema}")
        async with open_many(url.replace("//tests@", f"//{schema}@"), 1) as (store,):
            assert await scene(store).queue() == 1

    asyncio.run(story())


async def command(url: str, sql: str) -> None:
    """Say something to the server as its owner."""
    address = read_address(url)
    connection = await asyncpg.connect(address.url, server_settings={"search_path": address.schema})
    try:
        await connection.execute(sql)
    finally:
        await connection.close()
