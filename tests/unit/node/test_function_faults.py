"""A fault around a function: in the thread or the loop that executes it, and not in what the user wrote."""

from pathlib import Path

import pytest

from ganger.core.ids import Fence
from ganger.core.outcome import Crashed, Fail, Killed, Succeed
from tests.unit.node.functional import Works, appear, perform
from tests.unit.node.guarded import is_alive

FAULTS = "tests.unit.node.faults"
MODES = ("process", "thread", "loop")

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mode", MODES)
def test_a_result_that_cannot_be_made_is_a_crash_of_that_task_alone(tmp_path: Path, mode: str) -> None:
    async def scenario(works: Works) -> None:
        gate = tmp_path / "gate"
        (other,) = await works.start(works.assign("wait_for", str(gate), mode=mode))
        broken = await works.run(f"{FAULTS}:break_sealing", mode=mode)
        gate.touch()

        assert isinstance(broken.outcome, Crashed)
        assert "no room for the result" in str(broken.outcome.reason)
        assert (await works.end_of(other))[0].outcome == Succeed(b'"there"')
        assert (await works.run("add", 1, mode=mode)).outcome == Succeed(b"1")

    perform(scenario, tmp_path, processes=2, threads=2)


def test_what_was_printed_before_a_fault_is_not_taken_for_that_of_the_next_one(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        await works.run("nothing")
        broken, said = await works.end_of(
            *await works.start(works.assign(f"{FAULTS}:print_and_break_sealing"), works.assign("say", "mine"))
        )

        assert isinstance(broken.outcome, Crashed)
        assert said.data["stdout"] == b"mine\nfrom below\n"

    perform(scenario, tmp_path)


@pytest.mark.parametrize("mode", MODES)
def test_a_result_that_cannot_be_handed_over_ends_the_process(tmp_path: Path, mode: str) -> None:
    async def scenario(works: Works) -> None:
        broken = await works.run(f"{FAULTS}:break_giving", mode=mode)

        assert broken.outcome == Crashed("its process exited with code 1")
        assert (await works.run("add", 1, mode=mode)).outcome == Succeed(b"1")

    perform(scenario, tmp_path, threads=2)


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_cannot_be_begun_is_a_crash_of_that_task_alone(tmp_path: Path, mode: str) -> None:
    async def scenario(works: Works) -> None:
        await works.run(f"{FAULTS}:break_beginning", mode=mode)
        broken = await works.run("add", 1, mode=mode)

        assert isinstance(broken.outcome, Crashed)
        assert "no room for a note" in str(broken.outcome.reason)
        assert (await works.run("add", 1, mode=mode)).outcome == Succeed(b"1")

    perform(scenario, tmp_path, threads=1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["exit_unprintably", "stop_iterating"])
def test_an_end_that_is_hard_to_tell_is_a_failure(tmp_path: Path, mode: str, name: str) -> None:
    async def scenario(works: Works) -> None:
        failed = (await works.run(f"{FAULTS}:{name}", mode=mode)).outcome

        assert isinstance(failed, Fail)
        assert (await works.run("add", 1, mode=mode)).outcome == Succeed(b"1")

    perform(scenario, tmp_path, threads=2)


@pytest.mark.parametrize("name", [f"{FAULTS}:exit_from_loop", "leave_by_exit"])
def test_a_function_that_exits_does_not_take_its_loop_with_it(tmp_path: Path, name: str) -> None:
    async def scenario(works: Works) -> None:
        gate = tmp_path / "gate"
        (other,) = await works.start(works.assign("wait_for", str(gate), mode="loop"))
        left = (await works.run(name, mode="loop")).outcome
        gate.touch()

        assert isinstance(left, Fail)
        assert "it called exit(3)" in str(left.reason)
        assert (await works.end_of(other))[0].outcome == Succeed(b'"there"')

    perform(scenario, tmp_path)


@pytest.mark.parametrize("mode", ["thread", "loop"])
def test_a_function_that_does_not_obey_is_not_said_to_have_ended_while_its_thread_runs(
    tmp_path: Path, mode: str
) -> None:
    async def scenario(works: Works) -> None:
        begun = tmp_path / "begun"
        (task,) = await works.start(works.assign("begin_and_wait", str(begun), mode=mode, grace=50))
        pid = int(await appear(begun))
        await works.executor.stop(task, Fence(7), "not wanted")
        (ended,) = await works.end_of(task)

        assert ended.outcome == Killed("not wanted")
        assert not is_alive(pid)

    perform(scenario, tmp_path, threads=2)


@pytest.mark.parametrize("mode", ["thread", "loop"])
def test_a_function_in_a_thread_is_asked_to_end_and_its_process_goes_on(tmp_path: Path, mode: str) -> None:
    async def scenario(works: Works) -> None:
        pid = (await works.run("tell_pid", mode=mode)).outcome
        (task,) = await works.start(works.assign(f"{FAULTS}:begin_and_obey", str(tmp_path / "begun"), mode=mode))
        await appear(tmp_path / "begun")
        await works.executor.stop(task, Fence(7), "not wanted")

        assert (await works.end_of(task))[0].outcome == Killed("not wanted")
        assert (tmp_path / "begun").read_text() == "obeyed"
        assert (await works.run("tell_pid", mode=mode)).outcome == pid

    perform(scenario, tmp_path, threads=2)


def test_many_functions_that_are_not_async_run_at_once_beside_the_loop(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        (tmp_path / "met").mkdir()
        jobs = [works.assign("meet_on_threads", str(tmp_path / "met"), 50, mode="loop") for _ in range(50)]

        assert len({end.outcome for end in await works.end_of(*await works.start(*jobs))}) == 1

    perform(scenario, tmp_path)


def test_a_thread_that_a_coroutine_left_behind_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        assert (await works.run(f"{FAULTS}:leave_a_thread", str(tmp_path / "never"))).outcome == Succeed()
        await works.executor.close(give_back=True)

    perform(scenario, tmp_path)


def test_a_copy_of_the_loop_does_not_work_on(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        forked = await works.run(f"{FAULTS}:fork_and_return_on_loop", str(tmp_path / "ran"))

        assert forked.outcome == Succeed(b'"the original of 1"')
        assert (tmp_path / "ran").read_text() == "run\n"
        assert (await works.run("add", 1, mode="loop")).outcome == Succeed(b"1")

    perform(scenario, tmp_path)


def test_a_process_that_has_no_voice_left_ends_all_the_same(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        broken = await works.run(f"{FAULTS}:close_own_voice", str(tmp_path / "never"))

        assert broken.outcome == Crashed("its process exited with code 1")

    perform(scenario, tmp_path)
