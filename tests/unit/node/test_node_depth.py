"""How much a node takes at once: of functions as many as their processes want, of commands never more than it may."""

import asyncio
import selectors
from collections.abc import Sequence
from typing import Any

from ganger.assembly.source import EngineSource
from ganger.core.ids import TaskId
from ganger.core.outcome import Succeed
from ganger.core.state import Status
from ganger.core.task import Kind
from ganger.node.executor import Assignment, Ended, Told
from ganger.node.source import Taken
from tests.unit.node.guarded import until
from tests.unit.node.staffed import PATIENCE, Hall, HandBatch, HandExecutor, enact, hall


class CountedSource(EngineSource):
    takes = 0

    async def take(self, *given: Any, **fields: Any) -> Taken:
        self.takes += 1
        return await super().take(*given, **fields)


class QuickBatch(HandBatch):
    """Each has ended when the loop comes round."""

    def start(self, assignments: Sequence[Assignment], told: Told) -> None:
        ended = [(one, Ended(Succeed())) for one in assignments]
        asyncio.get_running_loop().call_soon(told, ended)


def test_functions_are_taken_as_deep_as_they_are_wanted_beside_commands_too() -> None:
    async def scenario(hall: Hall) -> None:
        batch = HandBatch(100)
        await hall.submit(150, kind=Kind.FUNCTION)
        node = hall.node(HandExecutor(), batch=[batch], slots=1, prefetch=2)
        await node.start()

        await until(lambda: len(batch.held) == 100)
        assert (node.feel().used, node.feel().held) == (1, 100)

    enact(scenario)


def test_commands_that_come_where_functions_were_expected_go_back_and_run_in_their_turn() -> None:
    async def scenario(hall: Hall) -> None:
        batch, hand = HandBatch(100), HandExecutor()
        functions = await hall.submit(10, kind=Kind.FUNCTION)
        node = hall.node(hand, batch=[batch], slots=1, prefetch=2)
        await node.start()
        await until(lambda: len(batch.held) == 10)
        commands = await hall.submit(40)
        await released(hall, *commands)
        await hall.has_status(Status.QUEUED, *commands)

        assert (len(node.carrier.hands.held), hand.runs) == (10, {})
        for task in functions:
            batch.finish(task, Succeed())
        for _ in commands:
            (run,) = await hand.running(1)
            run.finish(Succeed())
        await hall.has_status(Status.SUCCEEDED, *functions, *commands)
        assert [found.attempts for found in await hall.engine.tasks(commands) if found is not None] == [1] * 40

    enact(scenario)


async def released(hall: Hall, *tasks: TaskId) -> None:
    """Wait until each was given back."""
    async with asyncio.timeout(PATIENCE):
        while not all([(await hall.get(task)).releases for task in tasks]):  # noqa: ASYNC110 - any step may change it
            await asyncio.sleep(0.005)


class EvenSelector(selectors.DefaultSelector):
    """Each round of the loop takes as long as any other, and whoever waits has waited: no machine is slow or busy."""

    now = 0.0
    round = 0.000_05

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select()
        self.now += max(timeout, self.round)
        return super().select(0)


class EvenLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._even = EvenSelector()
        super().__init__(self._even)

    def time(self) -> float:
        return self._even.now


def test_tasks_that_come_in_a_stream_are_settled_some_at_a_time() -> None:
    async def scenario() -> int:
        async with hall() as made:
            source = CountedSource(made.engine, made.clock, blobs=made.blobs)
            await made.node(batch=[QuickBatch(100)], source=source).start()
            tasks = [await submit_later(made) for _ in range(300)]
            await made.has_status(Status.SUCCEEDED, *tasks)
            return source.takes

    async def submit_later(made: Hall) -> TaskId:
        later = asyncio.Event()
        asyncio.get_running_loop().call_later(0.000_15, later.set)
        await later.wait()
        return (await made.submit(kind=Kind.FUNCTION))[0]

    with asyncio.Runner(loop_factory=EvenLoop) as runner:
        assert runner.run(scenario()) < 100
