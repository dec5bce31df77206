"""A reader who has seen position n has seen all that will ever be below n, however many write at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest

from ganger.core.event import Fact
from ganger.core.ids import Position, QueueId, TaskId
from ganger.core.task import Kind, NewTask
from ganger.engine.store import EVENTS_TOPIC, Query, Submission
from ganger.engine.stores.sqlite import SqliteStore
from tests.system.harness import PATIENCE, Line, Member, crew
from tests.system.harness_store import found, open_store

pytestmark = [pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(400)]

WRITERS: Final = 8
EACH: Final = 12_500
ROWS: Final = WRITERS * EACH
LARGEST_BATCH: Final = 100
LONGEST_DELAY: Final = 0.004

Read = Callable[[SqliteStore, Position], Awaitable[tuple[list[TaskId], Position]]]
"""What there is behind a cursor: the tasks, and the next cursor."""


async def write(line: Line, database: Path, queue: QueueId, number: int) -> None:
    """Submit in batches of any size, with any delay between."""
    store, rng, written = await open_store(database), random.Random(number), 0
    line.say("open")
    await line.hear()
    while written < EACH:
        size = min(rng.randint(1, LARGEST_BATCH), EACH - written)
        await store.submit(Submission((NewTask(queue, Kind.PAYLOAD, str(number).encode()),) * size))
        written += size
        await asyncio.sleep(rng.uniform(0, LONGEST_DELAY))
    line.say("written", written)
    await line.hear()
    await store.close()


async def page_of_queue(store: SqliteStore, after: Position, queue: QueueId | None) -> tuple[list[TaskId], Position]:
    page = await store.find(Query(queue=queue, after=after, most=700))
    last = page.tasks[-1].position if page.tasks else after
    return [task.id for task in page.tasks], last if page.next is None else page.next


async def tell_events(store: SqliteStore, after: Position) -> tuple[list[TaskId], Position]:
    events = await store.events(after, most=100)
    told = [entry.task for event in events if event.fact == Fact.SUBMITTED for entry in event.entries]
    return told, events[-1].position if events else after


async def page(line: Line, database: Path, queue: QueueId) -> None:
    """Page on without a pause, whatever the last page held."""
    store = await open_store(database)
    line.say("open")
    seen: list[TaskId] = []
    cursor = Position(0)
    async with asyncio.timeout(2 * PATIENCE):
        while len(seen) < ROWS:
            rows, cursor = await page_of_queue(store, cursor, queue)
            seen += rows
    line.say(seen)
    await line.hear()
    await store.close()


async def poll_tasks(line: Line, database: Path, queue: QueueId) -> None:
    await _poll(line, database, lambda store, after: page_of_queue(store, after, None))


async def poll_events(line: Line, database: Path, queue: QueueId) -> None:
    await _poll(line, database, tell_events)


async def _poll(line: Line, database: Path, read: Read) -> None:
    """Look only after a wake-up, and then until there is nothing more."""
    store, woken = await open_store(database), asyncio.Event()
    store.listen([EVENTS_TOPIC], lambda topic: woken.set())
    line.say("open")
    seen: list[TaskId] = []
    cursor = Position(0)
    async with asyncio.timeout(2 * PATIENCE):
        while len(seen) < ROWS:
            await woken.wait()
            woken.clear()
            rows, cursor = await read(store, cursor)
            while rows:
                seen += rows
                rows, cursor = await read(store, cursor)
    line.say(seen)
    await line.hear()
    await store.close()


async def read_all(database: Path) -> list[object]:
    store = await open_store(database)
    rows = await store.file.read(lambda connection: connection.execute("SELECT id FROM task ORDER BY id").fetchall())
    await store.close()
    return [row[0] for row in rows]


def test_each_row_is_seen_once_by_a_pager_and_by_long_pollers_while_eight_processes_write(tmp_path: Path) -> None:
    database = tmp_path / "ganger.db"
    queue = asyncio.run(found(database))
    with crew() as hired:
        writers = [hired.start(write, database, queue, number) for number in range(WRITERS)]
        readers = [hired.start(role, database, queue) for role in (page, poll_tasks, poll_events)]
        _hear_all([*writers, *readers], ("open",))
        for writer in writers:
            writer.tell("go")
        _hear_all(writers, ("written", EACH))
        seen = [reader.hear(2 * PATIENCE)[0] for reader in readers]
    there = asyncio.run(read_all(database))
    assert len(there) == ROWS
    assert [rows == there for rows in seen] == [True] * len(readers), "a row was missed, seen twice, or out of order"


def _hear_all(members: list[Member], words: tuple[object, ...]) -> None:
    for member in members:
        assert member.hear(2 * PATIENCE) == words
