"""A glance says what the open store says, and writes nothing."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from ganger.core.errors import StoreReadOnly, TaskNotFound
from ganger.core.graph import Edge
from ganger.core.ids import Fence, Position, QueueId, TaskId
from ganger.core.node import Registration
from ganger.core.task import Kind, NewTask
from ganger.engine.engine import Engine
from ganger.engine.store import Claim, Configure, Edits, Exchange, Query, Store, Submission, Tend
from ganger.engine.stores.sqlite import SqliteStore, glance_at
from ganger.engine.view import View, finish
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

CLOCK = SystemClock()


async def _fill(store: Store) -> None:
    engine = Engine(store, CLOCK, SystemEntropy())
    queue = (await engine.queues.create("work", by="test")).id
    first = NewTask(queue, Kind.COMMAND, b"x" * 3_000)
    await engine.submit([first, NewTask(queue, Kind.PAYLOAD, parents=(Edge(-1),), key="k")])
    node = await engine.nodes.register(Registration("ada", "token"))
    (claimed,) = await engine.claim(Claim(node.id, (queue,), start=True))
    await engine.append_output(claimed.lease, "stdout", 0, b"said")
    await engine.put_data(claimed.lease, "kept", b"value")
    await engine.close()


async def _read(store: Store) -> list[Any]:
    """One answer of each reading operation."""
    ids = [TaskId(1), TaskId(9), TaskId(2)]
    return [
        await store.tasks(ids),
        await store.find(Query()),
        await store.find(Query(key="k")),
        await store.look(TaskId(1)),
        await store.value(TaskId(1), "spec", 10, 20),
        await store.value(TaskId(1), "kept"),
        await store.value(TaskId(1), "out:stdout", 1, 2, Fence(1)),
        await store.events(Position(0)),
        await store.counts(),
        await store.directory(),
        await store.audit(Position(0)),
    ]


def test_a_glance_says_what_the_store_says(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"

    async def scenario() -> None:
        store = await SqliteStore.open(path, CLOCK, SystemEntropy())
        await _fill(store)
        said = await _read(store)
        with glance_at(path, CLOCK) as glance:
            assert glance is not None
            assert finish(_read(glance)) == said
            with pytest.raises(TaskNotFound):
                finish(glance.look(TaskId(9)))
        await store.close()

    asyncio.run(scenario())


def test_a_glance_shows_one_moment_whatever_is_committed_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"

    async def scenario() -> None:
        store = await SqliteStore.open(path, CLOCK, SystemEntropy())
        await _fill(store)
        with glance_at(path, CLOCK) as glance:
            assert glance is not None
            view = View(glance, CLOCK)
            assert len((await view.find(Query())).tasks) == 2
            await Engine(store, CLOCK, SystemEntropy()).submit([NewTask(QueueId(1), Kind.PAYLOAD)])
            assert len((await view.find(Query())).tasks) == 2
        await store.close()

    asyncio.run(scenario())


def test_a_glance_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"

    async def scenario() -> None:
        store = await SqliteStore.open(path, CLOCK, SystemEntropy())
        await _fill(store)
        await store.close()

    asyncio.run(scenario())
    with glance_at(path, CLOCK) as glance:
        assert glance is not None
        writes: list[Awaitable[Any]] = [
            glance.submit(Submission(())),
            glance.exchange(Exchange()),
            glance.write(()),
            glance.edit(Edits(())),
            glance.configure(Configure()),
            glance.tend(Tend()),
        ]
        for write in writes:
            with pytest.raises(StoreReadOnly):
                asyncio.run(_await(write))
        assert glance.listen((), print)() is None
        assert glance.capabilities.shared


async def _await(work: Awaitable[Any]) -> Any:
    return await work


def test_a_look_that_waits_is_refused() -> None:
    with pytest.raises(RuntimeError, match="waits for nothing"):
        finish(_wait())


async def _wait() -> None:
    await asyncio.sleep(0)
