"""A node at work: slots, prefetch, kills, drains, lost leases, restarts."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from ganger.core.errors import BadInput, NodeTaken, StoreUnavailable
from ganger.core.ids import Fence, TaskId
from ganger.core.lease import Lease
from ganger.core.node import Registration
from ganger.core.outcome import Crashed, Fail, Release, Succeed
from ganger.core.queue import Policy
from ganger.core.state import Status
from ganger.core.task import Claimed, Kind
from ganger.engine.store import Claim
from ganger.node.spool import Bell, Spool, SpoolKey
from ganger.testing.clock import FakeClock
from tests.unit.node.guarded import until
from tests.unit.node.staffed import Hall, HandBatch, HandExecutor, enact


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


@pytest.mark.parametrize("options", [{"queues": ("other",)}, {"ignore": ("work",)}])
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


def test_a_drain_waits_for_what_runs_and_gives_back_what_was_fetched_ahead() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(4)
        node = hall.node(hand, slots=1, prefetch=2)
        await node.start()
        await hand.running(1)
        await hall.has_status(Status.CLAIMED, *tasks[1:3])
        draining = asyncio.create_task(node.drain())
        await hall.has_status(Status.QUEUED, *tasks[1:3])
        assert not draining.done()
        hand.runs[tasks[0]].finish(Succeed())
        await draining

        assert await hall.status(*tasks) == [Status.SUCCEEDED, *[Status.QUEUED] * 3]
        assert (await hall.get(tasks[1])).attempts == 0
        assert [found.state for found in await hall.engine.nodes.all()] == ["left"]
        assert hand.closed == [False]

    enact(scenario)


def test_a_drain_hands_back_what_outlasts_its_grace_and_counts_nothing() -> None:
    async def scenario(hall: Hall) -> None:
        hand, batch = HandExecutor(), HandBatch()
        (task,) = await hall.submit()
        node = hall.node(hand, batch=[batch], grace=50)
        await node.start()
        (run,) = await hand.running(1)
        await hall.has_status(Status.RUNNING, task)
        await node.drain()
        found = await hall.get(task)

        assert run.stopped is not None
        assert (found.status, found.attempts, found.crashes) == (Status.QUEUED, 0, 0)

    enact(scenario)


def test_a_stop_ends_a_drain_that_takes_too_long() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        node = hall.node(hand)
        await node.start()
        await hand.running(1)
        draining = asyncio.create_task(node.drain())
        await until(node.draining.is_set)
        await node.stop()
        await draining

        assert (await hall.get(task)).attempts == 0
        assert await hall.status(task) == [Status.QUEUED]

    enact(scenario)


def test_an_operator_can_have_a_node_drained() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        node = hall.node(hand, token="secret", lease=300)
        await node.start()
        await hall.engine.nodes.drain(node.session.node, "secret")
        await asyncio.wait_for(node.session.told_to_drain.wait(), 5)
        (task,) = await hall.submit()

        assert node.ready() == (False, "the node was told to drain")
        await node.drain()
        assert await hall.status(task) == [Status.QUEUED]

    enact(scenario)


def test_a_kill_reaches_what_runs_and_what_waits_here() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(2)
        await hall.node(hand, slots=1, prefetch=1).start()
        await hand.running(1)
        await hall.has_status(Status.CLAIMED, tasks[1])
        asked = asyncio.get_running_loop().time()
        await hall.engine.kill(tasks, by="test")
        await hall.has_status(Status.TERMINATED, *tasks)

        assert asyncio.get_running_loop().time() - asked < 2
        assert hand.runs.keys() == {tasks[0]}

    enact(scenario)


def test_a_function_that_was_to_be_killed_and_had_not_begun_does_not_run_again() -> None:
    class Slow(HandBatch):
        async def stop(self, task: TaskId, fence: Fence, reason: str) -> None:
            self.finish(task, Release())

    async def scenario(hall: Hall) -> None:
        batch = Slow()
        (task,) = await hall.submit(kind=Kind.FUNCTION)
        await hall.node(batch=[batch]).start()
        await until(lambda: batch.held)
        await hall.engine.kill([task], by="test")

        await hall.has_status(Status.TERMINATED, task)

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


def test_a_name_that_another_live_node_has_is_refused() -> None:
    async def scenario(hall: Hall) -> None:
        await hall.node(HandExecutor()).start()

        with pytest.raises(NodeTaken, match="another node is called ada"):
            await hall.node(HandExecutor(), token="another").start()

    enact(scenario)


def test_a_node_without_executors_is_refused() -> None:
    async def scenario(hall: Hall) -> None:
        with pytest.raises(BadInput):
            hall.node()

    enact(scenario)


def test_a_result_that_comes_too_late_is_refused_and_counted() -> None:
    clock = FakeClock()

    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        node = hall.node(hand)
        await node.start()
        (run,) = await hand.running(1)
        await hall.has_status(Status.RUNNING, task)
        clock.advance(30_001)
        run.finish(Succeed())
        await until(lambda: node.stale == 1)

        assert await hall.status(task) == [Status.RUNNING]
        assert "stale_results" in hall.diary.names()

    enact(scenario, clock=clock)


def test_a_node_that_was_given_up_ends_everything_and_comes_anew() -> None:
    clock = FakeClock()

    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        node = hall.node(hand)
        await node.start()
        (run,) = await hand.running(1)
        first = node.session.node
        clock.advance(30_001)
        assert node.ready() == (False, "no beat was answered in the time of a lease")
        await hall.submit()
        await until(lambda: run.stopped)
        await until(lambda: node.session.node != first and node.session.joined.is_set())
        assert node.stale == 0
        (again,) = await hand.running(1)

        assert run.stopped == "its lease was lost"
        assert again.task != task
        assert node.ready() == (True, "")

    enact(scenario, clock=clock)


def test_while_the_store_is_away_everything_runs_on_and_is_settled_later() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(2)
        node = hall.node(hand, lease=600)
        await node.start()
        (run, other) = await hand.running(2)
        away = StoreUnavailable("away")
        hall.store.faults = {"exchange": away, "configure": away}
        run.finish(Succeed())
        await until(lambda: {"settle_failed", "beat_failed"} <= set(hall.diary.names()))
        assert other.stopped is None
        hall.store.faults = {}
        await hall.has_status(Status.SUCCEEDED, tasks[0])

        assert await hall.status(tasks[1]) == [Status.RUNNING]
        assert node.session.is_trusted

    enact(scenario)


def test_readiness_tells_that_nothing_can_be_claimed() -> None:
    async def scenario(hall: Hall) -> None:
        node = hall.node(HandExecutor())
        assert node.ready() == (False, "the node is new")
        await node.start()
        hall.store.faults = {"exchange": StoreUnavailable("away")}
        await hall.submit()
        await until(lambda: not node.ready().is_ready)
        assert node.ready() == (False, "nothing can be claimed: away")
        hall.store.faults = {}
        await until(lambda: node.ready().is_ready)

    enact(scenario)


def test_a_lease_that_nobody_here_knows_of_is_given_back() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        node = hall.node(hand, lease=150, token="secret", slots=1)
        tasks = await hall.submit(2)
        await node.start()
        await hand.running(1)
        # Without the limit of its slots it can be given what it never asked for.
        await hall.engine.nodes.register(Registration("ada", "secret", None, 150, kinds=(Kind.COMMAND,)))
        lost = await hall.engine.claim(Claim(node.session.node, (hall.queue.id,), 1))
        assert [one.id for one in lost] == [tasks[1]]
        node.session.is_doubtful = True
        await until(lambda: "stray_lease_given_back" in hall.diary.names())
        await hall.has_status(Status.QUEUED, tasks[1])

    enact(scenario)


def test_a_restart_leaves_what_runs_to_the_next_node() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        tasks = await hall.submit(3)
        first = hall.node(hand, token="secret", slots=2, prefetch=1, handover=60_000, lease=300)
        await first.start()
        runs = await hand.running(2)
        await hall.has_status(Status.RUNNING, *tasks[:2])
        await first.stop(leave_running=True)

        assert hand.closed == [True]
        assert await hall.status(*tasks) == [Status.RUNNING, Status.RUNNING, Status.QUEUED]
        assert all(run.trusted_until > hall.clock.now() + 40_000 for run in runs)
        runs[0].finish(Succeed(b"meanwhile"))
        second = hall.node(hand, token="secret", slots=2)
        await second.start()
        await hall.has_status(Status.SUCCEEDED, tasks[0])
        runs[1].finish(Succeed(b"after"))
        await hall.has_status(Status.SUCCEEDED, tasks[1])

        assert second.session.node == first.session.node
        assert (await hall.get(tasks[1])).attempts == 1
        assert [run.stopped for run in runs] == [None, None]

    enact(scenario)


def test_what_a_dead_node_held_and_runs_nowhere_is_settled_at_once() -> None:
    async def scenario(hall: Hall) -> None:
        tasks = await hall.submit(1)
        functions = await hall.submit(2, kind=Kind.FUNCTION)
        claimed = await _die_with(hall, [*tasks, *functions])
        hand, batch = HandExecutor(), HandBatch()
        batch.blamed = {(functions[1], claimed[functions[1]].fence)}
        hand.left = []
        await hall.engine.queues.pause(hall.queue.id, by="test")
        await hall.node(hand, batch=[batch], token="secret").start()
        await hall.has_status(Status.QUEUED, *tasks, *functions)

        assert [(await hall.get(task)).crashes for task in (*tasks, *functions)] == [1, 0, 1]

    enact(scenario)


async def _die_with(hall: Hall, tasks: Sequence[TaskId]) -> dict[TaskId, Claimed]:
    """Hold these as a node that said that they run, and say no more."""
    dead = await hall.engine.nodes.register(Registration("ada", "secret"))
    claimed = await hall.engine.claim(Claim(dead.id, (hall.queue.id,), len(tasks), start=True))
    return {one.id: one for one in claimed}


def test_what_runs_without_a_lease_is_ended_and_forgotten() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        first = hall.node(hand, token="secret")
        await first.start()
        (run,) = await hand.running(1)
        await first.stop(leave_running=True)
        await hall.engine.nodes.leave(first.session.node, "secret")
        await hall.node(hand, token="secret", name="eve").start()
        await until(lambda: run.forgotten)

        assert run.stopped == "its lease was lost"
        assert await hall.status(task) == [Status.RUNNING]

    enact(scenario)


def test_a_stop_leaves_at_once_and_blames_nobody() -> None:
    async def scenario(hall: Hall) -> None:
        hand = HandExecutor()
        (task,) = await hall.submit()
        node = hall.node(hand)
        await node.start()
        await hand.running(1)
        await hall.has_status(Status.RUNNING, task)
        await node.stop()
        await hall.has_status(Status.QUEUED, task)

        assert (await hall.get(task)).crashes == 0

    enact(scenario, upkeep=True)


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


def test_a_start_that_is_refused_ends_the_attempt() -> None:
    async def scenario(hall: Hall) -> None:
        class Stale:
            """A source for which every lease has ended by the time that it is told of the start."""

            def __init__(self) -> None:
                self._source = hall.source()

            def __getattr__(self, name: str) -> object:
                return getattr(self._source, name)

            async def started(self, leases: Sequence[Lease]) -> Sequence[int]:
                return range(len(leases))

        hand = HandExecutor()
        (task,) = await hall.submit()
        await hall.node(hand, source=Stale()).start()
        await until(lambda: task in hand.runs and hand.runs[task].stopped)
        await until(lambda: "attempt_dropped" in hall.diary.names())

        assert await hall.status(task) == [Status.CLAIMED]

    enact(scenario)
