"""The life of warm processes: stopped, too late, distrusted, recycled, left behind."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGKILL, SIGSTOP

import psutil
import pytest

from ganger.core.clock import Moment
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Fail, Killed, Release, Succeed
from ganger.node.functions.note import Note
from tests.unit.node.functional import CLOCK, Works, appear, perform, works
from tests.unit.node.guarded import until

pytestmark = pytest.mark.slow


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@contextmanager
def gone_at_last(pid: int) -> Iterator[None]:
    """A process that a failed test leaves is ended."""
    try:
        yield
    finally:
        if psutil.pid_exists(pid):
            os.kill(pid, SIGKILL)


def test_a_function_that_obeys_is_killed_without_force(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        pid = (await works.run("tell_pid")).outcome
        (task,) = await works.start(works.assign("obey", grace=60_000))
        await works.executor.stop(task, Fence(7), "not wanted")
        (ended,) = await works.end_of(task)

        assert ended.outcome in (Killed("not wanted"), Release())
        assert (await works.run("tell_pid")).outcome == pid

    perform(scenario, tmp_path)


def test_a_function_that_does_not_obey_ends_with_its_process(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        begun = tmp_path / "begun"
        (task, after) = await works.start(works.assign("begin_and_wait", str(begun), grace=50), works.assign("add", 1))
        pid = int(await appear(begun))
        await works.executor.stop(task, Fence(7), "not wanted")
        (ended, other) = await works.end_of(task, after)

        assert ended.outcome == Killed("not wanted")
        assert is_gone(pid)
        assert other.outcome in (Succeed(b"1"), Release())

    perform(scenario, tmp_path)


def test_what_has_not_begun_is_dropped_and_given_back(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        gate = tmp_path / "gate"
        await works.run("nothing")
        works.teach("wait_for")
        works.teach("note_run")
        (first, second) = await works.hand_over(
            works.assign("wait_for", str(gate)), works.assign("note_run", str(tmp_path / "ran"))
        )
        await works.executor.stop(second, Fence(7), "not wanted")
        (dropped,) = await works.end_of(second)
        gate.touch()

        assert dropped.outcome == Release()
        assert (await works.end_of(first))[0].outcome == Succeed(b'"there"')
        assert not (tmp_path / "ran").exists()

    perform(scenario, tmp_path)


def test_a_function_that_takes_too_long_fails_with_its_own_code(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        late = await works.run("begin_and_wait", str(tmp_path / "begun"), timeout=100, grace=50)

        assert late.outcome == Fail(124, "it took more than 100 ms")

    perform(scenario, tmp_path)


def test_a_coroutine_is_cancelled_and_the_others_go_on(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        (tmp_path / "met").mkdir()
        await works.run("add_later", 1, 1)
        (stopped,) = await works.start(works.assign("wait_for_ever"))
        (other,) = await works.start(works.assign("meet", str(tmp_path / "met"), 2))
        await works.executor.stop(stopped, Fence(7), "not wanted")
        (killed,) = await works.end_of(stopped)
        (third,) = await works.start(works.assign("meet", str(tmp_path / "met"), 2))
        ended = await works.end_of(other, third)

        assert killed.outcome in (Killed("not wanted"), Release())
        assert all(isinstance(end.outcome, Succeed) for end in ended)

    perform(scenario, tmp_path)


@pytest.mark.parametrize("name", ["begin_and_wait", "begin_and_hold_the_lock"])
def test_the_end_of_trust_ends_a_function_without_the_node(tmp_path: Path, name: str) -> None:
    """The event loop of this test stands for a node that is stopped: nothing is awaited until the process is dead."""

    async def scenario(works: Works) -> None:
        begun = tmp_path / "begun"
        (task,) = await works.start(works.assign(name, str(begun)))
        pid = int(await appear(begun))
        end = CLOCK.now() + 300
        works.executor.trust(Moment(end))
        psutil.wait_procs([psutil.Process(pid)], timeout=10)

        assert is_gone(pid)
        assert end <= CLOCK.now() <= end + 1_000
        assert (await works.end_of(task))[0].outcome == Release()

    perform(scenario, tmp_path)


@pytest.mark.slow
def test_trust_that_is_renewed_lets_a_function_live_that_holds_the_lock(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        begun = tmp_path / "begun"
        works.trusted_until = Moment(CLOCK.now() + 2_000)
        (task,) = await works.start(works.assign("begin_and_hold_the_lock", str(begun), grace=0))
        pid = int(await appear(begun))
        works.executor.trust(Moment(CLOCK.now() + 60_000))
        await until(lambda: CLOCK.now() > works.trusted_until + 200)

        assert not is_gone(pid)
        await works.executor.stop(task, Fence(7), "enough")
        assert (await works.end_of(task))[0].outcome == Killed("enough")

    perform(scenario, tmp_path)


def test_nothing_begins_when_the_lease_cannot_be_trusted(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        await works.run("nothing")
        works.executor.trust(Moment(CLOCK.now() - 1))
        works.trusted_until = Moment(0)

        assert (await works.run("note_run", str(tmp_path / "ran"))).outcome == Release()
        assert not (tmp_path / "ran").exists()

    perform(scenario, tmp_path)


def test_what_a_function_daemonised_ends_with_its_process(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        left = tmp_path / "daemon"
        (task,) = await works.start(works.assign("leave_a_daemon", str(left), grace=0))
        daemon = int(await appear(left))
        with gone_at_last(daemon):
            assert not is_gone(daemon)
            await works.executor.stop(task, Fence(7), "enough")
            await works.end_of(task)

            assert is_gone(daemon)

    perform(scenario, tmp_path)


def test_a_process_is_replaced_after_so_many_tasks(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        pids: set[object] = set()
        while len(pids) < 3:
            pids.add((await works.run("tell_pid")).outcome)

        assert "function_process_recycled" in works.diary.names()
        assert "function_process_died" not in works.diary.names()

    perform(scenario, tmp_path, recycle_after=10)


def test_a_process_is_replaced_when_it_has_grown(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        pids: set[object] = set()
        while len(pids) < 2:
            pids.add((await works.run("tell_pid")).outcome)

        assert "function_process_recycled" in works.diary.names()

    perform(scenario, tmp_path, recycle_bytes=1)


def test_what_lies_behind_a_long_function_is_run_by_another_process(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        gate = tmp_path / "gate"
        await works.end_of(*await works.start(*(works.assign("nothing") for _ in range(200))))
        long = await works.start(works.assign("wait_for", str(gate)))
        others = await works.start(*(works.assign("add", number) for number in range(20)))
        ended = await works.end_of(*others)
        gate.touch()

        assert {type(end.outcome) for end in ended} <= {Succeed, Release}
        assert (await works.end_of(*long))[0].outcome == Succeed(b'"there"')

    perform(scenario, tmp_path, processes=2)


@pytest.mark.parametrize("seems_short", [True, False])
def test_what_waits_for_a_process_that_is_busy_for_long_goes_back(tmp_path: Path, seems_short: bool) -> None:
    async def scenario(works: Works) -> None:
        gate = tmp_path / "gate"
        await works.run("nothing")
        works.teach("nothing")
        if seems_short:
            works.teach("wait_for")
        long, *others = await works.hand_over(
            works.assign("wait_for", str(gate)), *(works.assign("nothing") for _ in range(1_000))
        )
        assert {one.outcome for one in await works.end_of(*others)} == {Release()}
        gate.touch()
        assert (await works.end_of(long))[0].outcome == Succeed(b'"there"')

    perform(scenario, tmp_path)


def test_closing_gives_back_what_has_not_begun_and_lets_the_rest_finish(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        gate = tmp_path / "gate"
        await works.run("nothing")
        works.teach("wait_for")
        works.teach("note_run")
        running, waiting = await works.hand_over(
            works.assign("wait_for", str(gate)), works.assign("note_run", str(tmp_path / "ran"))
        )
        await appear(tmp_path / "gate.begun")
        closing = asyncio.create_task(works.executor.close(give_back=True))
        (back,) = await works.end_of(waiting)
        gate.touch()
        await closing

        assert back.outcome == Release()
        assert works.ended[running].outcome == Succeed(b'"there"')
        assert not (tmp_path / "ran").exists()
        assert not list((tmp_path / "notes").iterdir())

    perform(scenario, tmp_path)


def test_the_next_node_learns_what_the_last_one_was_executing(tmp_path: Path) -> None:
    async def live_and_die() -> tuple[TaskId, int]:
        first = Works(tmp_path)
        begun = tmp_path / "begun"
        task, _ = await first.start(first.assign("begin_and_wait", str(begun)), first.assign("nothing"))
        pid = int(await appear(begun))
        parent = psutil.Process(pid).parent()
        assert parent is not None
        os.kill(parent.pid, SIGSTOP)
        saved = [(path, path.read_bytes()) for path in (tmp_path / "notes").iterdir()]
        os.kill(parent.pid, SIGKILL)
        await first.end_of(task)
        await first.executor.close(give_back=False)
        for path, content in saved:
            path.write_bytes(content)
        return task, pid

    async def follow() -> None:
        task, _ = await live_and_die()
        (tmp_path / "notes" / "broken.note").write_bytes(b"half")
        async with works(tmp_path) as next_one:
            assert next_one.executor.blamed == {(task, Fence(7))}
            assert not list((tmp_path / "notes").iterdir())

    asyncio.run(follow())


def test_a_copy_of_the_process_does_not_work_on(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        forked = await works.run("fork_and_return", str(tmp_path / "copy"))

        assert forked.outcome == Succeed(b'"the original"')
        assert (tmp_path / "copy").exists()
        assert (await works.run("add", 1)).outcome == Succeed(b"1")

    perform(scenario, tmp_path)


def test_a_note_says_what_is_executed_and_nothing_else(tmp_path: Path) -> None:
    note = Note.make(tmp_path / "a.note", 3)
    other = Note.open(tmp_path / "a.note")
    note.begin(1, 5, 22, 7, 1_000)
    note.begin(2, 6, 23, 1, 1_001)
    note.end(2)

    assert [tuple(one) for one in other.executing()] == [(5, 22, 7, 1_000)]
    note.close()
    other.close()


def test_what_has_not_begun_is_given_back_and_what_comes_later_is_done(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        gate = tmp_path / "gate"
        adds = [works.assign("add", number) for number in range(50)]
        works.teach("wait_for")
        works.teach("add")
        first, *others = await works.hand_over(works.assign("wait_for", str(gate)), *adds)
        await until((tmp_path / "gate.begun").exists)
        assert list(works.executor.executing) == [(first, Fence(7))]
        works.executor.give_back()
        assert {one.outcome for one in await works.end_of(*others)} == {Release()}
        gate.touch()
        (ended,) = await works.end_of(first)

        assert isinstance(ended.outcome, Succeed)
        assert not works.executor.executing
        assert (await works.run("add", 40, 2)).outcome == Succeed(b"42")

    perform(scenario, tmp_path)
