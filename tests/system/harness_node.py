"""Nodes for tests of whole processes: on a store that the test owns, in a process of their own or in the test's."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from ganger.assembly.node import NodeWishes, OpenNode, open_node
from ganger.assembly.registry import open_parts
from ganger.assembly.settings import Settings
from ganger.core.ids import TaskId
from ganger.core.queue import Policy, Queue
from ganger.core.task import Kind, NewTask, Task
from ganger.databases.sqlite import Rank
from ganger.engine.engine import Engine
from ganger.engine.upkeep import keep_up
from ganger.node.options import NodeOptions
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.wire.specs import CommandSpec, FunctionSpec, ShellSpec, encode
from tests.system.harness import Line
from tests.unit.node.guarded import until

CHORES: Final = "tests.unit.node.chores"
PATIENCE: Final = 60.0


def settings(folder: Path) -> Settings:
    return Settings(store=f"sqlite:{folder}/ganger.db", allow="tests.*")


@asynccontextmanager
async def node_in(folder: Path, **options: Any) -> AsyncIterator[OpenNode]:
    """A node in this process. It does no upkeep: the test does."""
    said = NodeOptions(options.pop("name", "ada"), **{"slots": 2, **options})
    async with open_node(settings(folder), said, NodeWishes(upkeep=False)) as opened:
        yield opened


async def serve_node(line: Line, folder: Path, options: dict[str, Any]) -> None:
    """A node in a process of its own, until it is told `drain`, `stop` or `leave`."""
    async with node_in(folder, **options) as opened:
        line.say("ready")
        (word,) = await line.hear()
        match word:
            case "drain":
                await opened.node.drain()
            case "leave":
                await opened.node.stop(leave_running=True)
            case _:
                await opened.node.stop()
    line.say("ended")


class Desk:
    """The test's own engine: it submits, looks, and waits."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.queue: Queue

    async def submit(self, *tasks: NewTask) -> list[TaskId]:
        return (await self.engine.submit(tasks)).ids

    def call(self, name: str, *args: Any, grace: int = 5_000, **fields: Any) -> NewTask:
        spec = FunctionSpec(f"{CHORES}:{name}", list(args), grace=grace)
        return NewTask(self.queue.id, Kind.FUNCTION, encode(spec), **fields)

    def shell(self, script: str, **fields: Any) -> NewTask:
        return NewTask(self.queue.id, Kind.SHELL, encode(ShellSpec(script=script)), **fields)

    def command(self, *argv: str, **fields: Any) -> NewTask:
        return NewTask(self.queue.id, Kind.COMMAND, encode(CommandSpec(argv=list(argv))), **fields)

    async def get(self, task: TaskId) -> Task:
        (found,) = await self.engine.tasks([task])
        assert found is not None
        return found

    async def wait(self, *tasks: TaskId) -> list[int]:
        waited = await self.engine.wait(tasks, PATIENCE)
        assert waited.done
        return [status for status in waited.statuses if status is not None]

    async def until_task(self, task: TaskId, condition: Callable[[Task], bool]) -> Task:
        async with asyncio.timeout(PATIENCE):
            while not condition(found := await self.get(task)):  # noqa: ASYNC110 - another process sets no event here
                await asyncio.sleep(0.01)
        return found


@asynccontextmanager
async def desk(folder: Path, policy: Policy | None = None) -> AsyncIterator[Desk]:
    """An engine that owns the file, whatever happens to the nodes, and does the upkeep."""
    clock, entropy = SystemClock(), SystemEntropy()
    async with open_parts(settings(folder), clock, entropy, rank=Rank.SERVER) as parts:
        made = Desk(Engine(parts.store, clock, entropy, blobs=parts.blobs), folder)
        chores = keep_up(parts.store, clock)
        await chores.start()
        try:
            made.queue = await made.engine.queues.create("work", policy or Policy(), by="test")
            yield made
        finally:
            await chores.stop()
            await made.engine.close()


async def appear(path: Path) -> str:
    """What an attempt wrote there, as soon as it is there and whole."""
    await until(lambda: path.exists() and path.read_text().endswith("\n"), PATIENCE)
    return path.read_text().strip()  # noqa: ASYNC240 - a file of some bytes
