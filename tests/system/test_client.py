"""The SDK, a store in a file, and a node in a process of its own."""

import importlib
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from ganger import Ganger, Status, TaskFailed

PATIENCE = 60.0
JOBS = """
from datetime import date
from ganger import Ganger

app = Ganger()

@app.task
def add(a: int, b: int = 1) -> int:
    print("adding")
    return a + b

@app.task
async def next_year(day: date) -> date:
    return day.replace(year=day.year + 1)

@app.task
def total(numbers: list[int | None]) -> int:
    return sum(number or 0 for number in numbers)

@app.task
def refuse() -> None:
    raise ValueError("not this")

@app.task
def fan(width: int) -> list[int]:
    return [handle.id for handle in add.map(range(width))]

if __name__ == "__main__":
    handle = add.delay(20, 22)
    print(handle.id, handle.result(60))
    app.close()
"""
NODE = """
import asyncio, sys
from ganger.assembly.node import NodeWishes, open_node
from ganger.assembly.settings import Settings
from ganger.node.options import NodeOptions

async def main() -> None:
    wishes = NodeWishes(paths=(sys.argv[1],))
    async with open_node(Settings(store=f"sqlite:{sys.argv[1]}/g.db"), NodeOptions("node"), wishes):
        print("up", flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def _environment(folder: Path) -> dict[str, str]:
    paths = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": paths, "GANGER_STORE": f"sqlite:{folder / 'g.db'}"}


@contextmanager
def _node(folder: Path) -> Iterator[None]:
    """A node at work; it ends in order when its input does."""
    with subprocess.Popen(
        [sys.executable, "-c", NODE, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment(folder),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            assert process.stdout.readline() == "up\n"
            yield
            process.stdin.close()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("client")
    (place / "jobs_of_client.py").write_text(JOBS)
    with _node(place):
        yield place


@pytest.fixture
def app(folder: Path) -> Iterator[Ganger]:
    with Ganger(f"sqlite:{folder / 'g.db'}", upkeep=False) as app:
        yield app


@pytest.fixture
def jobs(folder: Path, app: Ganger, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module as the node imports it, its app on this test's store."""
    monkeypatch.syspath_prepend(folder)
    module = importlib.import_module("jobs_of_client")
    monkeypatch.setattr(module.app, "bridge", app.bridge)
    return module


def test_functions_come_back_with_results(jobs: Any) -> None:
    handle = jobs.add.delay(1, b=2)

    assert handle.result(PATIENCE) == 3
    assert handle.logs() == "adding\n"
    assert jobs.next_year.delay(date(2024, 1, 2)).result(PATIENCE) == date(2025, 1, 2)
    assert [one.result(PATIENCE) for one in jobs.add.map(range(100))] == list(range(1, 101))


def test_a_failure_comes_back_with_its_traceback(jobs: Any) -> None:
    with pytest.raises(TaskFailed, match=r"(?s)jobs_of_client\.py.*ValueError: not this") as failed:
        jobs.refuse.delay().result(PATIENCE)
    assert "function.py" not in str(failed.value.reason)
    assert failed.value.exit_code is None


def test_commands_come_back_with_exit_codes_and_output(app: Ganger) -> None:
    hello = app.command(["sh", "-c", "echo $GREETING; echo oops >&2"], env={"GREETING": "hello"}, cwd="/")
    wrong = app.shell("exit 3")

    assert (hello.result(PATIENCE), hello.logs("stdout"), hello.logs("stderr")) == (0, "hello\n", "oops\n")
    with pytest.raises(TaskFailed, match="exited with code 3") as failed:
        wrong.result(PATIENCE)
    assert (failed.value.exit_code, failed.value.status) == (3, Status.FAILED)
    assert pickle.loads(pickle.dumps(failed.value)).exit_code == 3


def test_output_of_a_command_is_followed_while_it_runs(app: Ganger, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    handle = app.shell(f"echo one; until [ -e {gate} ]; do sleep 0.05; done; echo two")
    texts = handle.follow()

    assert next(texts) == "one\n"
    gate.touch()
    assert list(texts) == ["two\n"]


def test_results_flow_through_a_graph_and_a_group(app: Ganger, jobs: Any) -> None:
    with app.graph() as graph:
        code = graph.command(["true"])
        one = graph.task(jobs.add, code.result)
        two = graph.task(jobs.add, one.result, one.result)
        wrong = graph.shell("exit 1")
        rescue = graph.task(jobs.total, [one.result, two.result], after=[wrong.failed])
    group = app.group([jobs.add.bind(number) for number in range(5)], then=jobs.total)

    assert (two.handle.result(PATIENCE), rescue.handle.result(PATIENCE)) == (2, 3)
    assert group.results(PATIENCE) == [1, 2, 3, 4, 5]
    assert group.then is not None
    assert group.then.result(PATIENCE) == 15


def test_a_running_command_is_killed(app: Ganger) -> None:
    handle = app.command(["sh", "-c", "exec sleep 60"])

    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while handle.task().status != Status.RUNNING:
        assert time.monotonic() < deadline
        pause.wait(0.02)
    assert handle.kill()
    assert handle.wait(PATIENCE)
    assert handle.status is Status.TERMINATED


def test_a_running_function_submits_others(app: Ganger, jobs: Any) -> None:
    ids = jobs.fan.delay(3).result(PATIENCE)

    assert [app.handle(task).result(PATIENCE) for task in ids] == [1, 2, 3]


def test_a_script_submits_its_own_functions(folder: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "jobs_of_client.py"],
        cwd=folder, capture_output=True, text=True, timeout=90, check=False, env=_environment(folder),
    )  # fmt: skip

    assert ran.stdout.endswith(" 42\n"), ran.stderr
