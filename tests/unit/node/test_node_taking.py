"""A node at work: what it takes, and how many at once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ganger.assembly.source import EngineSource
from ganger.core.errors import BadInput, StoreUnavailable
from ganger.core.node import Vitals
from ganger.core.outcome import Crashed, Fail, Succeed
from ganger.core.queue import Policy
from ganger.core.state import Status
from ganger.core.task import Kind
from ganger.engine.store import Query
from ganger.engine.upkeep import Reaper
from ganger.node.executor import Assignment
from ganger.node.source import Taken
from ganger.node.spool import Bell, Spool, SpoolKey
from ganger.testing.clock import FakeClock
from tests.unit.node.guarded import until
from tests.unit.node.staffed import Hall, HandBatch, HandExecutor, HandRun, enact


def test_it_runs_as_many_as_it_has_slots_and_fills_them_again() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(5)
        await hall.node(hand, slots=2).start()

        assert [run.task for run in await hand.running(2)] == tasks[:2]
        await hall.has_status(Status.RUNNING, *tasks[:2])
        assert await hall.status(*tasks[2:]) == [Status.QUEUED] * 3
        hand.runs[tasks[0]].finish(Succeed(b"1"))
        await hall.has_status(Status.SUCCEEDED, tasks[0])
        assert [run.task for run in await hand.running(2)] == tasks[1:3]
        assert hand.runs[tasks[0]].forgotten

    enact(scenario)


def test_short_attempts_are_settled_together_and_not_told_to_run() -> None:
    class Quick(HandExecutor):
        async def start(self, assignment: Assignment) -> HandRun:
            run = await super().start(assignment)
            run.finish(Succeed(b"0"))
            return run

    async def scenario(hall: Hall) -> None:
        source = CountedSource(hall.engine, hall.clock, blobs=hall.blobs)
        tasks = await hall.submit(200)
        await hall.node(Quick(), slots=2, prefetch=64, source=source).start()
        await hall.has_status(Status.SUCCEEDED, *tasks)

        assert source.takes <= 100
        assert all(found.started is None for found in await hall.engine.tasks(tasks) if found is not None)

    enact(scenario)


class CountedSource(EngineSource):
    takes = 0

    async def take(self, *given: Any, **fields: Any) -> Taken:
        self.takes += 1
        return await super().take(*given, **fields)


def test_an_attempt_is_told_who_it_is() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        await hall.node(hand, environment={"GANGER_STORE": "memory:"}).start()
        (run,) = await hand.running(1)

        assert run.environment == {"GANGER_STORE": "memory:", "GANGER_TASK": str(task), "GANGER_FENCE": "1"}

    enact(scenario)


def test_work_that_comes_later_is_taken_at_once_and_new_queues_are_noticed() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        await hall.node(hand).start()
        (first,) = await hall.submit()
        (run,) = await hand.running(1)
        other = await hall.engine.queues.create("other", by="test")
        (second,) = await hall.submit(queue=other.id)

        assert run.task == first
        assert [one.task for one in await hand.running(2)] == [first, second]

    enact(scenario)


@pytest.mark.parametrize(
    "options", [{"queues": ("other",)}, {"ignore": ("work",)}, {"queues": ("other",), "ignore": ("other",)}]
)
def test_it_takes_only_the_queues_that_it_may(options: dict[str, tuple[str, ...]]) -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        other = await hall.engine.queues.create("other", by="test")
        (mine,), (not_mine,) = await hall.submit(queue=other.id), await hall.submit()
        source = hall.source(ignore=options.get("ignore", ()))
        await hall.node(hand, source=source, **options).start()

        assert [run.task for run in await hand.running(1)] == [mine]
        assert await hall.status(not_mine) == [Status.QUEUED]

    enact(scenario)


def test_a_queue_whose_plugin_is_not_here_is_ignored_until_it_comes() -> None:
    class Plugins(HandExecutor):
        def __init__(self) -> None:
            super().__init__()
            self.here = {"here"}

        @property
        def kinds(self) -> Sequence[str]:  # type: ignore[override]
            return [f"plugin:{name}" for name in self.here]

    async def scenario(hall: Hall) -> None:
        hand = Plugins()
        source = hall.source(has_plugin=lambda name: name in hand.here)
        await hall.node(hand, source=source).start()
        tasks = []
        for name in ("here", "absent"):
            queue = await hall.engine.queues.create(name, Policy(plugin=name), by="test")
            tasks += await hall.submit(queue=queue.id, kind=f"plugin:{name}")

        assert [run.task for run in await hand.running(1)] == tasks[:1]
        hand.here.add("absent")
        await hall.engine.queues.create("something else", by="test")
        assert [run.task for run in await hand.running(2)] == tasks

    enact(scenario)


def test_functions_are_claimed_as_running_and_as_many_as_there_is_room_for() -> None:
    async def scenario(hall: Hall) -> None:
        batch = HandBatch(4)
        tasks = await hall.submit(6, kind=Kind.FUNCTION)
        await hall.node(batch=[batch]).start()
        await until(lambda: len(batch.held) == 4)
        assert await hall.status(*tasks) == [*[Status.RUNNING] * 4, *[Status.QUEUED] * 2]
        before = hall.store.asked["exchange"]
        batch.finish(tasks[0])
        await until(lambda: tasks[4] in batch.held)

        assert hall.store.asked["exchange"] == before + 1, "it was settled and the next one claimed in one step"
        assert await hall.status(tasks[0]) == [Status.SUCCEEDED]

    enact(scenario)


def test_a_finished_task_does_not_wait_for_the_others() -> None:
    async def scenario(hall: Hall) -> None:
        batch = HandBatch(10)
        tasks = await hall.submit(10, kind=Kind.FUNCTION)
        await hall.node(batch=[batch]).start()
        await until(lambda: len(batch.held) == 10)
        batch.finish(tasks[3], Fail(7, "no"))
        await hall.has_status(7, tasks[3])

        assert await hall.status(tasks[0]) == [Status.RUNNING]

    enact(scenario)


def test_a_node_without_executors_is_refused() -> None:
    async def scenario(hall: Hall) -> None:
        with pytest.raises(BadInput):
            hall.node()

    enact(scenario)


def test_long_output_is_stored_before_the_settle_and_removed_here(tmp_path: Path) -> None:
    class Spooling(HandExecutor):
        spool = Spool(tmp_path, 1 << 20)

    async def scenario(hall: Hall) -> None:
        hand = Spooling()
        (task,) = await hall.submit()
        await hall.node(hand).start()
        (run,) = await hand.running(1)
        writer = hand.spool.write(SpoolKey(task, run.fence, "stdout"), Bell())
        writer.write(b"z" * 300_000)
        writer.close()
        run.finish(Succeed(), data={"stderr": b"little", "result": b"0"}, streams=("stdout", "stderr"))
        await hall.has_status(Status.SUCCEEDED, task)
        await until(lambda: not hand.spool.list())
        long, short = [await hall.engine.read_output(task, name, 0, 1 << 20) for name in ("stdout", "stderr")]

        assert (long.size, short.body) == (300_000, b"little")

    enact(scenario)


def test_an_executor_that_can_begin_nothing_gives_the_task_back() -> None:
    class Broken(HandExecutor):
        async def start(self, assignment: object) -> object:  # type: ignore[override]
            raise StoreUnavailable("no guardian")

    async def scenario(hall: Hall) -> None:
        (task,) = await hall.submit()
        await hall.node(Broken()).start()
        await hall.has_status(Status.DELAYED, task)

        assert (await hall.get(task)).attempts == 0

    enact(scenario)


def test_a_task_whose_process_crashes_three_times_is_held_with_the_reason() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        await hall.node(hand).start()
        for _ in range(3):
            (run,) = await hand.running(1)
            run.finish(Crashed("it was killed by SIGSEGV"))
            await until(lambda run=run: run.forgotten)  # type: ignore[misc]
        await hall.has_status(Status.HELD, task)

        assert "crashed 3 times" in str((await hall.get(task)).reason)

    enact(scenario)


def test_a_node_of_commands_and_functions_tells_only_what_has_truly_begun() -> None:
    clock = FakeClock()

    async def scenario(hall: Hall) -> None:
        batch = HandBatch(3)
        tasks = await hall.submit(3, kind=Kind.FUNCTION)
        await hall.node(HandExecutor(), batch=[batch], slots=4).start()
        await until(lambda: len(batch.held) == 3)
        batch.executing = {(tasks[1], batch.held[tasks[1]][0].claimed.fence)}
        await hall.has_status(Status.RUNNING, tasks[1])
        assert await hall.status(*tasks) == [Status.CLAIMED, Status.RUNNING, Status.CLAIMED]
        clock.advance(30_001)
        await Reaper(hall.store, clock).step()

        assert [(await hall.get(task)).crashes for task in tasks] == [0, 1, 0]

    enact(scenario, clock=clock)


def test_a_beat_tells_how_the_node_is() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        await hall.submit(5)
        node = hall.node(hand, slots=2, prefetch=1, lease=300)
        await node.start()
        await hand.running(2)
        async with asyncio.timeout(60):
            while (vitals := (await hall.engine.nodes.all())[0].vitals) is None or vitals.held < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        assert vitals == node.feel() == Vitals(slots=2, used=2, held=3, hands=vitals.hands)
        leased = await hall.engine.store.find(Query(holder=node.session.node))
        assert vitals.hands == tuple(task.id for task in leased.tasks)

    enact(scenario)
