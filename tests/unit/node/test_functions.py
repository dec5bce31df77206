"""Functions in warm processes: what each of their ends becomes."""

import datetime as dt
from pathlib import Path

import pytest
from msgspec.structs import replace

from ganger.core.outcome import Crashed, Fail, Killed, Release, Succeed
from ganger.node.functions.messages import LARGEST_RESULT, SMALL, Mode
from ganger.node.spool import SpoolKey
from tests.unit.node.functional import Works, perform
from tests.unit.node.guarded import until

pytestmark = pytest.mark.slow


def test_a_result_is_json_and_none_is_no_result(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        assert (await works.run("add", 2, kwargs={"second": 3})).outcome == Succeed(b"5")
        assert (await works.run("nothing")).outcome == Succeed()

    perform(scenario, tmp_path)


def test_a_number_without_a_word_in_json_goes_there_and_back(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        assert (await works.run("add", {"$float": "inf"}, 1)).outcome == Succeed(b'{"$float":"inf"}')

    perform(scenario, tmp_path)


def test_an_argument_has_the_type_that_the_function_asks_for(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        day = dt.date(2026, 11, 15)

        assert (await works.run("weekday", day.isoformat())).outcome == Succeed(str(day.weekday()).encode())
        wrong = (await works.run("weekday", "yesterday")).outcome
        assert isinstance(wrong, Fail)
        assert not wrong.again
        assert "the argument day" in str(wrong.reason)

    perform(scenario, tmp_path)


def test_an_exception_is_a_failure_with_its_traceback(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        failed = (await works.run("fail")).outcome

        assert isinstance(failed, Fail)
        assert (failed.code, failed.again) == (2, True)
        assert "chores.py" in str(failed.reason)
        assert str(failed.reason).rstrip().endswith("ValueError: it is not to be")
        assert "execution.py" not in str(failed.reason)

    perform(scenario, tmp_path)


@pytest.mark.parametrize(
    ("name", "args", "words", "again"),
    [
        ("fail_unprintably", [], "Unprintable", True),
        ("return_socket", [], "returned _thread.lock, which is not JSON", False),
        ("return_circle", [], "returned builtins.list, which is not JSON", False),
        ("return_much", [LARGEST_RESULT], "at most", False),
        ("leave_by_exit", [], "it called exit(3)", True),
        ("add", ["too", "many", "words"], "TypeError", True),
        ("no.such.module:name", [], "ModuleNotFoundError", True),
        ("tests.unit.node.chores:missing", [], "has no 'missing'", False),
        ("tests.unit.node.chores:Path.sep", [], "has no 'Path.sep'", False),
        ("tests.unit.node.chores:", [], "is no import path", False),
    ],
)
def test_whatever_goes_wrong_is_a_clear_failure(
    tmp_path: Path, name: str, args: list[object], words: str, again: bool
) -> None:
    async def scenario(works: Works) -> None:
        failed = (await works.run(name, *args)).outcome

        assert isinstance(failed, Fail)
        assert words in str(failed.reason)
        assert failed.again is again
        assert (await works.run("add", 1)).outcome == Succeed(b"1")

    perform(scenario, tmp_path)


def test_a_spec_that_is_none_fails_for_good(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        broken = replace(works.assign("nothing"), spec=b'{"path": 3}')
        (ended,) = await works.end_of(*await works.start(broken))

        assert isinstance(ended.outcome, Fail)
        assert not ended.outcome.again

    perform(scenario, tmp_path)


def test_signals_become_outcomes(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        assert (await works.run("snooze", 1_500)).outcome == Release(1_500)
        assert (await works.run("ask_again", 200)).outcome == Fail(reason="it asked to be tried again", delay=200)
        assert (await works.run("ask_again", None)).outcome == Fail(reason="it asked to be tried again")
        assert (await works.run("cancel_itself")).outcome == Killed("no use")
        assert isinstance((await works.run("snooze", -1)).outcome, Fail)

    perform(scenario, tmp_path)


def test_what_a_function_prints_is_its_own(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        said, silent = await works.run("say", "hello"), await works.run("nothing")

        assert said.data == {"stdout": b"hello\nfrom below\n", "stderr": b"oops\n"}
        assert (await works.run("log_twice")).data == {"log": b"first\nsecond\n"}
        assert not silent.data

    perform(scenario, tmp_path)


def test_long_output_is_in_the_spool_and_marked_where_it_is_cut(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        (task,) = await works.start(works.assign("say_much", SMALL + 10))
        (ended,) = await works.end_of(task)
        (cut,) = await works.end_of(*await works.start(works.assign("say_much", 200_000)))

        key = SpoolKey(task, 7, "stdout")  # type: ignore[arg-type]
        assert ended.streams == ("stdout",)
        assert await works.executor.spool.read_ended(key).read() == b"y" * (SMALL + 10)
        assert cut.data == {"cut": b'{"stdout":100000}'}

    perform(scenario, tmp_path, cap=100_000)


def test_a_function_knows_its_task(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        (task,) = await works.start(works.assign("tell_context"))
        (ended,) = await works.end_of(task)

        assert ended.outcome == Succeed(f"[{task},7,1]".encode())

    perform(scenario, tmp_path)


def test_progress_is_told_while_it_runs(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        (task,) = await works.start(works.assign("report_progress"))
        await works.end_of(task)

        assert works.said[-1] == (task, 90, "nearly")

    perform(scenario, tmp_path)


def test_a_reference_is_the_result_of_another_task(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        works.results[22] = b"40"

        assert (await works.run("add", {"$task": 22}, 2)).outcome == Succeed(b"42")
        wrong = (await works.run("add", {"$task": "x"}, 2)).outcome
        assert isinstance(wrong, Fail)
        assert not wrong.again

    perform(scenario, tmp_path)


def test_async_functions_run_together_on_a_loop(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        (tmp_path / "met").mkdir()
        (tmp_path / "alone").mkdir()
        assert isinstance((await works.run("meet", str(tmp_path / "alone"), 1)).outcome, Succeed)
        tasks = await works.start(*(works.assign("meet", str(tmp_path / "met"), 20) for _ in range(20)))
        ended = await works.end_of(*tasks)

        assert len({end.outcome for end in ended}) == 1

    perform(scenario, tmp_path)


def test_threads_run_together_in_one_process(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        (tmp_path / "met").mkdir()
        jobs = [works.assign("meet_on_threads", str(tmp_path / "met"), 4, mode="thread") for _ in range(4)]
        tasks = await works.start(*jobs)
        ended = await works.end_of(*tasks)

        assert len({end.outcome for end in ended}) == 1
        assert [end.data["stdout"] for end in ended] == [f"thread of {task}\n".encode() for task in tasks]

    perform(scenario, tmp_path, threads=4)


def test_a_node_says_where_functions_run_that_say_nothing(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        (tmp_path / "met").mkdir()
        assert (await works.run("add_later", 1, 2)).outcome == Succeed(b"3")
        jobs = [works.assign("meet_on_threads", str(tmp_path / "met"), 3) for _ in range(3)]
        ended = await works.end_of(*await works.start(*jobs))
        loop = (await works.run("tell_pid", mode="loop")).outcome

        assert len({end.outcome for end in ended} | {loop}) == 2

    perform(scenario, tmp_path, mode=Mode.THREAD, threads=3)


@pytest.mark.parametrize("how", ["die", "segfault", "kill_own_warden"])
def test_only_the_function_that_kills_its_process_is_blamed(tmp_path: Path, how: str) -> None:
    async def scenario(works: Works) -> None:
        runs = [tmp_path / f"runs{number}" for number in range(6)]
        await works.run("nothing")
        works.teach("note_run")
        works.teach(how)
        before = [works.assign("note_run", str(path)) for path in runs[:3]]
        after = [works.assign("note_run", str(path)) for path in runs[3:]]
        tasks = await works.hand_over(*before, works.assign(how), *after)
        *first, blamed, second, third, fourth = await works.end_of(*tasks)

        assert isinstance(blamed.outcome, Crashed)
        assert [end.outcome for end in first] == [Succeed()] * 3
        # Those behind it are run by the next process, or go back because that takes a while to start.
        ran = [path.read_text() if path.exists() else "" for path in runs]
        ended = [*first, second, third, fourth]
        assert [(end.outcome, text) for end, text in zip(ended, ran, strict=True)] == [
            (Succeed(), "run\n") if text else (Release(), "") for text in ran
        ]

    perform(scenario, tmp_path)


def test_the_last_words_of_a_dead_function_are_kept(tmp_path: Path) -> None:
    async def scenario(works: Works) -> None:
        died = await works.run("print_and_die")

        assert died.outcome == Crashed("its process exited with code 1")
        assert died.data == {"stdout": b"last words\n"}

    perform(scenario, tmp_path)


@pytest.mark.slow
def test_a_process_that_cannot_be_started_gives_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")

    async def scenario(works: Works) -> None:
        assert (await works.run("nothing")).outcome == Release(1_000)
        assert works.executor.room == 0
        monkeypatch.undo()
        await until(lambda: works.executor.room)
        assert (await works.run("nothing")).outcome == Succeed()

    perform(scenario, tmp_path)
