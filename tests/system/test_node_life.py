"""Nodes with real engines, real files and real processes: crashes, stops, kills, restarts."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from glob import glob
from pathlib import Path

import psutil
import pytest

from ganger.core.errors import NodeTaken
from ganger.core.queue import Policy
from ganger.core.state import Status
from ganger.core.task import NewTask
from ganger.runtime.clock import SystemClock
from ganger.wire.specs import PluginSpec, encode
from tests.system.harness import crew
from tests.system.harness_node import PATIENCE, Desk, appear, desk, node_in, serve_node
from tests.unit.node.guarded import until
from tests.yardstick import measuring

pytestmark = [pytest.mark.chaos]

CLOCK = SystemClock()


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def play(folder: Path, scenario: Callable[[Desk], Awaitable[None]], policy: Policy | None = None) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE + 10), desk(folder, policy) as made:
            await scenario(made)

    asyncio.run(run())


def test_a_function_that_kills_its_process_is_held_and_the_others_run_once(tmp_path: Path) -> None:
    async def scenario(desk: Desk) -> None:
        runs = [tmp_path / f"runs{number}" for number in range(20)]
        others = [desk.call("note_run", str(path)) for path in runs]
        tasks = await desk.submit(*others[:10], desk.call("die"), *others[10:])
        poison, rest = tasks[10], [*tasks[:10], *tasks[11:]]
        async with node_in(tmp_path, kinds=("function",)):
            held = await desk.until_task(poison, lambda task: task.status == Status.HELD)
            assert await desk.wait(*rest) == [Status.SUCCEEDED] * 20

        assert held.crashes == 3
        assert "its process exited with code 3" in str(held.reason)
        assert [path.read_text() for path in runs] == ["run\n"] * 20
        assert [(await desk.get(task)).crashes for task in rest] == [0] * 20

    play(tmp_path, scenario)


def test_what_a_function_returns_and_prints_is_in_the_store(tmp_path: Path) -> None:
    async def scenario(desk: Desk) -> None:
        added, said, long = await desk.submit(
            desk.call("add", 40, 2), desk.call("say"), desk.call("say_much", 2_000_000)
        )
        async with node_in(tmp_path, kinds=("function",)):
            await desk.wait(added, said, long)

        assert (await desk.engine.read_data(added, "result")).body == b"42"
        assert (await desk.engine.read_output(said, "stderr")).body == b"oops\n"
        assert (await desk.engine.read_output(long, "stdout")).size == 2_000_000
        assert not any(glob(f"{tmp_path}/**/*.stdout", recursive=True))

    play(tmp_path, scenario)


def test_a_large_result_is_kept_and_a_huge_one_is_a_clear_failure(tmp_path: Path) -> None:
    async def scenario(desk: Desk) -> None:
        large, huge = await desk.submit(desk.call("return_much", 3_000_000), desk.call("return_much", 30_000_000))
        async with node_in(tmp_path, kinds=("function",)):
            assert await desk.wait(large, huge) == [Status.SUCCEEDED, Status.FAILED]

        assert (await desk.engine.read_data(large, "result", 0, 10)).size == 3_000_002
        assert "at most" in str((await desk.get(huge)).reason)

    play(tmp_path, scenario)


def test_a_stopped_node_loses_its_function_at_the_end_of_trust_and_another_takes_it(tmp_path: Path) -> None:
    lived: list[int] = []

    async def scenario(desk: Desk) -> None:
        (task,) = await desk.submit(desk.call("wait_for", str(tmp_path / "gate"), grace=0))
        with crew() as hired:
            member = hired.start(serve_node, tmp_path, {"kinds": ("function",), "lease": 1_500})
            member.hear()
            await until((tmp_path / "gate.begun").exists)
            (worker,) = [one for one in psutil.Process(member.pid).children(recursive=True) if not one.children()]
            member.pause()
            stopped = CLOCK.now()
            await until(lambda: is_gone(worker.pid))
            lived.append(CLOCK.now() - stopped)
            assert (await desk.get(task)).status == Status.RUNNING, "it is nobody else's before it is dead"
            (tmp_path / "gate").touch()
            async with node_in(tmp_path, name="eve", kinds=("function",)):
                assert await desk.wait(task) == [Status.SUCCEEDED]
                member.resume()
                member.tell("stop")
                assert member.hear() == ("ended",)

        assert (await desk.get(task)).fence > 1

    with measuring(tmp_path) as slowness:
        play(tmp_path, scenario)
    assert lived[0] <= 1_500 + 500, slowness


@pytest.mark.parametrize("heir", ["ada", "eve"])
@pytest.mark.parametrize("kinds", [("function",), ("function", "shell")])
def test_a_killed_node_takes_its_functions_along_and_only_what_ran_is_blamed(
    tmp_path: Path, kinds: tuple[str, ...], heir: str
) -> None:
    """By the next node of its name; by the lapse of its lease only if it told what runs, as one of commands does."""

    async def scenario(desk: Desk) -> None:
        tasks = await desk.submit(
            desk.call("wait_for", str(tmp_path / "gate")), *(desk.call("add", number) for number in range(3))
        )
        with crew() as hired:
            member = hired.start(serve_node, tmp_path, {"kinds": kinds, "lease": 20_000 if heir == "ada" else 2_000})
            member.hear()
            await until((tmp_path / "gate.begun").exists)
            await desk.until_task(tasks[0], lambda found: found.status == Status.RUNNING)
            family = psutil.Process(member.pid).children(recursive=True)
            member.kill()
            await until(lambda: all(is_gone(one.pid) for one in family))
        (tmp_path / "gate").touch()
        async with node_in(tmp_path, name=heir, kinds=kinds):
            assert await desk.wait(*tasks) == [Status.SUCCEEDED] * 4

        was_told = heir == "ada" or len(kinds) > 1
        assert [(await desk.get(task)).crashes for task in tasks] == [int(was_told), 0, 0, 0]

    play(tmp_path, scenario)


@pytest.mark.parametrize("how", ["leave", "kill"])
def test_a_command_outlives_its_node_and_is_adopted_by_the_next(tmp_path: Path, how: str) -> None:
    async def scenario(desk: Desk) -> None:
        script = f"echo $$ > {tmp_path}/pid; until test -e {tmp_path}/gate; do sleep 0.02; done; echo done; exit 3"
        (task,) = await desk.submit(desk.shell(script))
        with crew() as hired:
            member = hired.start(serve_node, tmp_path, {"kinds": ("shell",), "lease": 10_000})
            member.hear()
            pid = int(await appear(tmp_path / "pid"))
            await desk.until_task(task, lambda found: found.status == Status.RUNNING)
            if how == "kill":
                member.kill()
            else:
                assert member.ask("leave") == ("ended",)
            assert not is_gone(pid)
            async with node_in(tmp_path, kinds=("shell",)) as opened:
                await until(lambda: opened.node.carrier.hands.held)
                (tmp_path / "gate").touch()
                assert await desk.wait(task) == [Status.FAILED]

        found = await desk.get(task)
        assert (found.attempts, found.crashes, found.fence) == (1, 0, 1)
        assert (await desk.engine.read_output(task, "stdout")).body == b"done\n"
        assert (await desk.engine.read_data(task, "result")).body == b"3"

    play(tmp_path, scenario)


def test_a_second_node_of_one_folder_is_refused(tmp_path: Path) -> None:
    async def scenario(desk: Desk) -> None:
        async with node_in(tmp_path, kinds=("function",)):
            with pytest.raises(NodeTaken, match="another process runs the node"):
                async with node_in(tmp_path, kinds=("function",)):
                    pass

    play(tmp_path, scenario)


class Demo:
    """A plugin that returns what it is told to."""

    def __init__(self, task: object) -> None:
        self._task = task

    def run(self) -> tuple[int, str, str]:
        status = self._task.params["status"]  # type: ignore[attr-defined]
        if status == 99:
            os.abort()
        if status == 8:
            return status, "long " * 100_000, "quiet"
        return status, f"task {self._task.id}", "quiet"  # type: ignore[attr-defined]


PROGRAM = """#!/bin/sh
echo "to standard output"
printf '{"status": 5, "stderr": "from the answer"}' > "$2"
"""


def test_plugins_are_classes_and_programs(tmp_path: Path) -> None:
    async def scenario(desk: Desk) -> None:
        program = tmp_path / "program"
        program.write_text(PROGRAM)
        program.chmod(0o700)
        names = [f"{__name__}:Demo", str(program), "no.such:Plugin"]
        queues = [
            await desk.engine.queues.create(f"q{n}", Policy(plugin=name), by="test") for n, name in enumerate(names)
        ]

        def task(number: int, status: int) -> NewTask:
            spec = encode(PluginSpec({"status": status}))
            return NewTask(queues[number].id, f"plugin:{names[number]}", spec)

        tasks = await desk.submit(task(0, 1), task(0, 7), task(0, -3), task(1, 0), task(2, 1))
        poison, long = await desk.submit(task(0, 99), task(0, 8))
        async with node_in(tmp_path):
            assert await desk.wait(*tasks[:4]) == [1, 7, 2, 5]
            assert await desk.wait(poison, long) == [128 + signal.SIGABRT, 8]

        assert (await desk.engine.read_output(long, "stdout")).size == 500_000
        assert (await desk.engine.read_output(tasks[0], "stdout")).body == f"task {tasks[0]}".encode()
        assert "status -3" in str((await desk.get(tasks[2])).reason)
        assert (await desk.engine.read_output(tasks[3], "stdout")).body == b"to standard output\n"
        assert (await desk.engine.read_output(tasks[3], "stderr")).body == b"from the answer"
        assert (await desk.get(tasks[4])).status == Status.QUEUED

    play(tmp_path, scenario)
