"""A function executor at work, for tests: jobs in, ends out, each waited for with a deadline."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from ganger.core.clock import Moment
from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.task import Claimed, Kind
from ganger.node.executor import Assignment, Ended
from ganger.node.executors.function import FunctionExecutor
from ganger.node.functions.options import FunctionOptions
from ganger.node.lengths import Name
from ganger.node.secrets import NO_SECRETS, Secrets
from ganger.runtime.clock import SystemClock
from ganger.wire.specs import FunctionSpec, encode
from tests.unit.node.guarded import Diary, until

CLOCK = SystemClock()
PATIENCE = 60.0
CHORES = "tests.unit.node.chores"


class Works:
    """An executor and what it told."""

    def __init__(self, folder: Path, secrets: Secrets = NO_SECRETS, **options: Any) -> None:
        self.diary = Diary()
        self.said: list[tuple[TaskId, float | None, str | None]] = []
        self.results: dict[int, bytes] = {}
        self.ended: dict[int, Ended] = {}
        self.told: list[int] = []
        self.stopping: list[asyncio.Future[None]] = []
        self._news = asyncio.Event()
        self._waiting: list[Assignment] = []
        self._ids = count(1)
        self.executor = FunctionExecutor(
            FunctionOptions(folder, **{"allow": ("tests.*",), **options}),
            CLOCK,
            report=lambda lease, percent, info: self.said.append((lease.task, percent, info)),
            read=self._read,
            secrets=secrets,
            telemetry=self.diary,
        )
        self.trusted_until = Moment(CLOCK.now() + 60_000)

    async def _read(self, task: TaskId) -> bytes:
        return self.results.get(task, b"")

    def assign(self, name: str, *args: Any, timeout: int | None = None, **fields: Any) -> Assignment:
        task = TaskId(next(self._ids))
        path = name if ":" in name else f"{CHORES}:{name}"
        spec = encode(FunctionSpec(path, list(args), **fields))
        claimed = Claimed(
            task, QueueId(1), Kind.FUNCTION, None, Fence(7), NodeId(1), None, 1024, 0, 0, "", timeout, 0
        )  # fmt: skip
        return Assignment(claimed, spec, {}, self.trusted_until)

    def teach(self, name: str, took: float = 0.1) -> None:
        """Have it know that this function takes so many ms."""
        for _ in range(10):
            self.executor.lengths.note(Name(Kind.FUNCTION, f"{CHORES}:{name}"), took)

    async def start(self, *assignments: Assignment) -> list[TaskId]:
        """Hand these over, as a node does: as many as are of use, and the others when there is room."""
        self._waiting.extend(assignments)
        self._feed()
        return [one.claimed.id for one in assignments]

    async def hand_over(self, *assignments: Assignment) -> list[TaskId]:
        """Hand these over, whether or not there is room."""
        self.executor.start(assignments, self._hear)
        return [one.claimed.id for one in assignments]

    def _feed(self) -> None:
        while self._waiting and (room := self.executor.room):
            some, self._waiting = self._waiting[:room], self._waiting[room:]
            self.executor.start(some, self._hear)

    def _hear(self, ended: Sequence[tuple[Assignment, Ended]]) -> None:
        for assignment, end in ended:
            assert assignment.claimed.id not in self.ended, "it was told twice"
            self.ended[assignment.claimed.id] = end
            self.told.append(assignment.claimed.id)
        self._news.set()
        self._feed()

    async def news(self, seconds: float) -> None:
        """Wait until something is told, or for so long."""
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()

    async def end_of(self, *tasks: int) -> list[Ended]:
        async with asyncio.timeout(PATIENCE):
            while any(task not in self.ended for task in tasks):
                self._news.clear()
                await self._news.wait()
        return [self.ended[task] for task in tasks]

    async def run(self, name: str, *args: Any, **fields: Any) -> Ended:
        (ended,) = await self.end_of(*await self.start(self.assign(name, *args, **fields)))
        return ended


@asynccontextmanager
async def works(folder: Path, **options: Any) -> AsyncIterator[Works]:
    made = Works(folder, **options)
    try:
        yield made
    finally:
        await made.executor.close(give_back=False)


def perform(scenario: Callable[[Works], Awaitable[None]], folder: Path, **options: Any) -> None:
    """Play a scenario with an executor of its own, within a deadline."""

    async def play() -> None:
        async with asyncio.timeout(PATIENCE), works(folder, **options) as made:
            await scenario(made)

    asyncio.run(play())


async def appear(path: Path) -> str:
    """What a function wrote there, as soon as it is there and whole."""
    await until(lambda: path.exists() and path.read_text())
    return path.read_text()  # noqa: ASYNC240 - a file of some bytes
