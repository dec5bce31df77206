"""What a check of a store stands on: a fresh store, a clock in its hands, and the verbs that read well in a test."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ganger.core.clock import Clock, Entropy, Wall
from ganger.core.event import Entry, Event
from ganger.core.ids import Fence, NodeId, Position, QueueId, TaskId
from ganger.core.node import Node, NodeState, Registration
from ganger.core.queue import Policy, Queue
from ganger.core.state import Move, move
from ganger.core.task import Claimed, NewTask, Task
from ganger.engine.store import (
    Chunk,
    Claim,
    Configure,
    Datum,
    Edit,
    Edits,
    Exchange,
    Exchanged,
    Lapsed,
    NodeChange,
    Note,
    QueueChange,
    Store,
    Submission,
    Tend,
    Touch,
)
from ganger.testing.clock import FakeClock, SeededEntropy

TOKEN = "the node's own secret"
MINUTE = 60_000
Subject = TypeVar("Subject", bound="StoreContract")


@dataclass(frozen=True, slots=True)
class Scene:
    """One store and the clock that it reads."""

    store: Store
    clock: FakeClock

    async def queue(self, name: str = "q", **policy: Any) -> QueueId:
        change = QueueChange(name=name, policy=Policy(**policy))
        made = (await self.store.configure(Configure(queue=change))).queue
        assert made is not None
        return made.id

    async def change_queue(self, queue: QueueId, **change: Any) -> Queue | None:
        return (await self.store.configure(Configure(queue=QueueChange(queue, **change)))).queue

    async def node(self, name: str = "n", lease: int = 30_000, **said: Any) -> NodeId:
        registration = Registration(name, TOKEN, lease=lease, **said)
        joined = (await self.store.configure(Configure(node=NodeChange(register=registration)))).node
        assert joined is not None
        return joined.id

    async def beat(self, node: NodeId, lease: int | None = None) -> tuple[TaskId, ...]:
        change = NodeChange(node, TOKEN, beat=True, lease=lease)
        return (await self.store.configure(Configure(node=change))).kills

    async def drain(self, node: NodeId) -> None:
        await self.store.configure(Configure(node=NodeChange(node, TOKEN, drain=True)))

    async def leave(self, node: NodeId) -> None:
        await self.store.configure(Configure(node=NodeChange(node, TOKEN, leave=True)))

    async def submit(self, *tasks: NewTask) -> list[TaskId]:
        return (await self.store.submit(Submission(tasks))).ids

    async def add(self, queue: QueueId, **fields: Any) -> TaskId:
        (task,) = await self.submit(plain(queue, **fields))
        return task

    async def claim(self, node: NodeId, *queues: QueueId, most: int = 1, **more: Any) -> list[Claimed]:
        return (await self.ask(node, *queues, most=most, **more)).claimed

    async def ask(self, node: NodeId, *queues: QueueId, most: int = 1, **more: Any) -> Exchanged:
        return await self.store.exchange(Exchange(claim=Claim(node, queues, most, **more)))

    async def take(self, node: NodeId, task: TaskId, **more: Any) -> Claimed:
        """Claim that very task."""
        (claimed,) = await self.claim(node, ids=(task,), **more)
        return claimed

    async def apply(self, *moves: Move) -> list[tuple[int, str]]:
        return (await self.store.exchange(Exchange(moves))).refused

    async def make(self, rule: str, *tasks: TaskId, **said: Any) -> None:
        """Move tasks that nobody holds; every move must be applied."""
        assert await self.apply(*(move(task, rule)._replace(**said) for task in tasks)) == []

    async def settle(self, rule: str, *held: Claimed, **said: Any) -> None:
        """Move held tasks under their leases; every move must be applied."""
        assert await self.apply(*(move(one.id, rule, one.fence)._replace(**said) for one in held)) == []

    async def finish(self, node: NodeId, rule: str, *tasks: TaskId, **said: Any) -> None:
        """Claim these tasks and end them at once."""
        held = [await self.take(node, task) for task in tasks]
        await self.settle(rule, *held, **said)

    async def write(self, *notes: Note) -> list[tuple[int, str]]:
        return await self.store.write(notes)

    async def edit(self, task: TaskId, **fields: Any) -> None:
        await self.store.edit(Edits((Edit(task, **fields),)))

    async def task(self, task: TaskId) -> Task:
        (found,) = await self.store.tasks([task])
        assert found is not None, f"there is no task {task}"
        return found

    async def statuses(self, *tasks: TaskId) -> list[int]:
        return [(await self.task(task)).status for task in tasks]

    async def gone(self, task: TaskId) -> bool:
        return await self.store.tasks([task]) == [None]

    async def data(self, task: TaskId, key: str) -> bytes | None:
        return (await self.store.value(task, key)).body

    async def events(self) -> list[Event]:
        return await self.store.events(Position(0), 100_000)

    async def history(self, task: TaskId) -> list[tuple[str, Entry]]:
        """What was told of a task, in order."""
        events = await self.events()
        return [(event.fact.value, entry) for event in events for entry in event.entries if entry.task == task]

    async def facts(self, task: TaskId) -> list[str]:
        return [fact for fact, _ in await self.history(task)]

    async def lapse(self) -> list[Lapsed]:
        return (await self.store.tend(Tend(lapse=True))).lapsed

    async def follow(self) -> None:
        """Do what steps have left over, to its end."""
        for _ in range(10_000):
            if not (await self.store.tend(Tend(release=True))).more:
                return
        raise AssertionError("upkeep never ends releasing")

    async def prune(self, before: Wall) -> None:
        for _ in range(10_000):
            if not (await self.store.tend(Tend(prune_before=before))).more:
                return
        raise AssertionError("upkeep never ends pruning")

    async def find_node(self, node: NodeId) -> Node | None:
        return next((known for known in (await self.store.directory()).nodes if known.id == node), None)

    async def node_state(self, node: NodeId) -> NodeState:
        found = await self.find_node(node)
        assert found is not None
        return NodeState(found.state)


def plain(queue: QueueId, kind: str = "command", **fields: Any) -> NewTask:
    return NewTask(queue, kind, **fields)


def put(task: TaskId, fence: int, key: str, value: bytes, **more: Any) -> Note:
    return Note(task, Fence(fence), datum=Datum(key, value, **more))


def append(task: TaskId, fence: int, start: int, body: bytes, stream: str = "stdout") -> Note:
    return Note(task, Fence(fence), chunk=Chunk(stream, start, body))


def touch(task: TaskId, fence: int, length: int | None = None) -> Note:
    return Note(task, Fence(fence), touch=Touch(length))


def ids_of(claimed: Sequence[Claimed]) -> list[TaskId]:
    return [one.id for one in claimed]


class StoreContract:
    """What every store must do. A backend says how it is opened, and inherits the tests.

    `open_store` is called in the event loop of the test; `folder` is empty and the test's own. Opening a durable store
    again with the same folder finds what was stored.
    """

    folder: Path

    @pytest.fixture(autouse=True)
    def _give_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def open_store(self, clock: Clock, entropy: Entropy) -> AbstractAsyncContextManager[Store]:
        raise NotImplementedError


def story(tell: Callable[[Subject, Scene], Awaitable[None]]) -> Callable[[Subject], None]:
    """Make a test of a coroutine: it runs on a store of its own, in an event loop of its own."""

    async def run(subject: Subject) -> None:
        clock = FakeClock()
        async with subject.open_store(clock, SeededEntropy()) as store:
            await tell(subject, Scene(store, clock))

    def test(subject: Subject) -> None:
        asyncio.run(run(subject))

    # The signature must stay that of `test`: pytest would take the scene for a fixture.
    test.__name__, test.__qualname__, test.__module__ = tell.__name__, tell.__qualname__, tell.__module__
    test.__doc__ = tell.__doc__
    return test
