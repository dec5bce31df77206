"""A node on an engine in memory, with executors in the test's hands: what they run ends when the test says so."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from ganger.assembly.source import EngineSource
from ganger.core.clock import Clock, Moment
from ganger.core.ids import Fence, QueueId, TaskId
from ganger.core.outcome import Killed, Outcome, Release, Succeed
from ganger.core.queue import Policy, Queue
from ganger.core.task import Kind, NewTask, Task
from ganger.engine.blobs.memory import MemoryBlobs
from ganger.engine.engine import Engine
from ganger.engine.store import Look
from ganger.engine.stores.memory import MemoryStore
from ganger.engine.upkeep import keep_up
from ganger.node.executor import Assignment, Ended, Told
from ganger.node.lengths import Name
from ganger.node.node import Node
from ganger.node.options import NodeOptions
from ganger.node.spool import Spool
from ganger.runtime.clock import SystemClock
from ganger.testing.clock import SeededEntropy
from tests.unit.engine.stage import Recording
from tests.unit.node.guarded import Diary, until

PATIENCE = 60.0
Key = tuple[TaskId, Fence]


class HandRun:
    """An attempt that runs until it is told to end, or is stopped."""

    def __init__(self, assignment: Assignment) -> None:
        self.task, self.fence = assignment.claimed.id, assignment.claimed.fence
        self.environment = assignment.environment
        self.trusted_until = assignment.trusted_until
        self.stopped: str | None = None
        self.forgotten = False
        self.end: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    async def begun(self) -> None:
        """It begins at once."""

    async def ended(self) -> Ended:
        return await asyncio.shield(self.end)

    async def stop(self, reason: str) -> None:
        self.stopped = reason
        self.finish(Killed(reason))

    def withdraw(self) -> None:
        """It has begun."""

    def trust(self, until: Moment) -> None:
        self.trusted_until = until

    def forget(self) -> None:
        self.forgotten = True

    def finish(self, outcome: Outcome, **fields: Any) -> None:
        if not self.end.done():
            self.end.set_result(Ended(outcome, **fields))


class HandExecutor:
    """Runs commands by hand. What it left running is there for the next node."""

    kinds: Sequence[str] = (Kind.COMMAND,)
    ahead = 0
    spool: Spool | None = None

    def __init__(self) -> None:
        self.runs: dict[TaskId, HandRun] = {}
        self.begun = asyncio.Event()
        self.left: list[HandRun] = []
        self.closed: list[bool] = []

    async def start(self, assignment: Assignment) -> HandRun:
        run = self.runs[assignment.claimed.id] = HandRun(assignment)
        self.begun.set()
        return run

    async def adopt(self) -> Sequence[HandRun]:
        left, self.left = self.left, []
        self.runs |= {run.task: run for run in left}
        return left

    async def close(self, *, leave_running: bool) -> None:
        self.closed.append(leave_running)
        open_ones = [run for run in self.runs.values() if not run.forgotten]
        if leave_running:
            self.left = open_ones
            return
        for run in open_ones:
            run.finish(Release())

    async def running(self, count: int) -> list[HandRun]:
        """Those that run, as soon as there are so many."""
        await until(lambda: len(self.open()) >= count, PATIENCE)
        return self.open()

    def open(self) -> list[HandRun]:
        return [run for run in self.runs.values() if not run.end.done()]


class HandBatch:
    """Runs functions by hand, many at once."""

    kinds: Sequence[str] = (Kind.FUNCTION,)
    spool: Spool | None = None

    def __init__(self, size: int = 10) -> None:
        self.size = size
        self.held: dict[TaskId, tuple[Assignment, Told]] = {}
        self.stopped: list[TaskId] = []
        self.trusted_until = Moment(0)
        self.blamed: Collection[Key] = frozenset()
        self.executing: set[Key] = set()
        self.closed: list[bool] = []

    @property
    def places(self) -> int:
        return self.size - len(self.held)

    @property
    def room(self) -> int:
        return self.places

    def start(self, assignments: Sequence[Assignment], told: Told) -> None:
        self.held |= {one.claimed.id: (one, told) for one in assignments}

    async def stop(self, task: TaskId, fence: Fence, reason: str) -> None:
        self.stopped.append(task)
        self.finish(task, Killed(reason))

    def trust(self, until: Moment) -> None:
        self.trusted_until = until

    def give_back(self) -> None:
        for task in [task for task in self.held if not self.is_executing(task)]:
            self.finish(task, Release())

    def is_executing(self, task: TaskId) -> bool:
        return (task, self.held[task][0].claimed.fence) in self.executing

    async def close(self, *, give_back: bool) -> None:
        self.closed.append(give_back)
        for task in list(self.held):
            self.finish(task, Release())

    def finish(self, task: TaskId, outcome: Outcome | None = None) -> None:
        assignment, told = self.held.pop(task)
        told([(assignment, Ended(outcome or Succeed()))])


def _teach(node: Node) -> None:
    """Have it know that the commands of these tests are short, so that it fetches some before there is a slot."""
    appetite, command = node.carrier.appetite, Name(Kind.COMMAND, "")
    for _ in range(10):
        appetite._lengths.note(command, 1.0)
    appetite._last = frozenset([command])


class Hall:
    """A store, an engine, a queue, and as many nodes as a test wants."""

    def __init__(self, clock: Clock, store: Recording) -> None:
        self.clock = clock
        self.store = store
        self.blobs = MemoryBlobs(clock)
        self.engine = Engine(store, clock, SeededEntropy(2), blobs=self.blobs)
        self.diary = Diary()
        self.queue: Queue
        self._nodes: list[Node] = []

    def source(self, **fields: Any) -> EngineSource:
        return EngineSource(self.engine, self.clock, blobs=self.blobs, **fields)

    def node(self, *executors: Any, batch: Sequence[Any] = (), source: Any = None, **options: Any) -> Node:
        said = NodeOptions(options.pop("name", "ada"), **{"slots": 2, "lease": 30_000, "patience": 60_000, **options})
        node = Node(
            source or self.source(), executors, batch, said, clock=self.clock, entropy=SeededEntropy(3),
            telemetry=self.diary,
        )  # fmt: skip
        self._nodes.append(node)
        if said.prefetch:
            _teach(node)
        return node

    async def submit(self, count: int = 1, kind: str = Kind.COMMAND, **fields: Any) -> list[TaskId]:
        queue = fields.pop("queue", self.queue.id)
        return (await self.engine.submit([NewTask(queue, kind, b"{}", **fields) for _ in range(count)])).ids

    async def get(self, task: TaskId) -> Task:
        return (await self.look(task)).task

    async def look(self, task: TaskId) -> Look:
        return await self.engine.look(task)

    async def status(self, *tasks: TaskId) -> list[int]:
        return [found.status for found in await self.engine.tasks(tasks) if found is not None]

    async def has_status(self, status: int, *tasks: TaskId) -> None:
        """Wait until all of these have this status."""
        async with asyncio.timeout(PATIENCE):
            while await self.status(*tasks) != [status] * len(tasks):  # noqa: ASYNC110 - any statement may change it
                await asyncio.sleep(0.005)

    async def close(self) -> None:
        for node in self._nodes:
            with suppress(Exception):
                await node.stop()
        await self.engine.close()


@asynccontextmanager
async def hall(clock: Clock | None = None, *, upkeep: bool = False) -> AsyncIterator[Hall]:
    time = clock or SystemClock()
    made = Hall(time, Recording(MemoryStore(time, SeededEntropy(1))))
    chores = keep_up(made.store, time)
    try:
        made.queue = await made.engine.queues.create("work", Policy(), by="test")
        if upkeep:
            await chores.start()
        yield made
    finally:
        await made.close()
        await chores.stop()


def enact(scenario: Callable[[Hall], Awaitable[None]], **options: Any) -> None:
    """Play a scenario in a hall of its own, within a deadline."""

    async def play() -> None:
        async with asyncio.timeout(PATIENCE), hall(**options) as made:
            await scenario(made)

    asyncio.run(play())


NO_QUEUE = QueueId(0)
