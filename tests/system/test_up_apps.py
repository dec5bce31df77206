"""A node that is told of an app writes its schedules, and finds code in the folder of `ganger.toml`."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ganger import Status, open_engine
from ganger.engine import NewTask, Policy

GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
PRINTER = "clockwork_of_test:Printer"
DEADLINE = 40.0
pytestmark = [pytest.mark.slow]

MODULE = """
from pathlib import Path
from ganger import Ganger

app = Ganger(name="clockwork")

@app.every(1, queue="ticks")
def tick() -> None:
    with open({log!r}, "a") as file:
        file.write("tick\\n")

class Printer:
    def __init__(self, task): ...

    def run(self):
        return 1, "printed", ""
"""


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GANGER, *words], cwd=folder, capture_output=True, text=True, timeout=DEADLINE, check=False)


@pytest.fixture
def below(tmp_path: Path) -> Iterator[Path]:
    """A folder under that of the settings, where a node was started."""
    (tmp_path / "clockwork_of_test.py").write_text(MODULE.format(log=str(tmp_path / "log")))
    (tmp_path / "ganger.toml").write_text('store = "sqlite:tasks.db"\napps = "clockwork_of_test:app, no_such:app"\n')
    folder = tmp_path / "below"
    folder.mkdir()
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen([*GANGER, "up", "--name", "here", "--quiet", "--no-server"], cwd=folder, stderr=said)
        try:
            yield folder
        finally:
            process.terminate()
            process.wait(60)


def test_its_schedules_tick_and_its_plugins_are_found(tmp_path: Path, below: Path) -> None:
    log, said = tmp_path / "log", tmp_path / "said"
    assert _comes(lambda: log.exists() and log.read_text().count("tick") >= 2), said.read_text()
    assert "clockwork_of_test:tick" in call(below, "schedule", "ls").stdout
    assert _comes(lambda: "schedules of no_such:app were not written" in said.read_text())

    assert asyncio.run(_print(f"sqlite:{tmp_path / 'tasks.db'}")) == [Status.SUCCEEDED]


async def _print(store: str) -> list[int | None]:
    """How a task of a plugin that lies in the settings' folder ends."""
    async with open_engine(store, upkeep=False) as engine:
        queue = await engine.queues.create("prints", Policy(plugin=PRINTER), by="test")
        (task,) = (await engine.submit([NewTask(queue.id, f"plugin:{PRINTER}", b"{}")])).ids
        return (await engine.wait([task], DEADLINE)).statuses


def _comes(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


ETL = """
from ganger import Ganger

print("a module may print")
app = Ganger({store})

@app.task
def load(what: str) -> str:
    return "loaded " + what
"""


def _start(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*GANGER, "up", "--name", "here", "--quiet", "--no-server", "--app", "etl:app", *words],
        cwd=folder, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_node_of_an_app_runs_on_the_apps_own_store(tmp_path: Path) -> None:
    (tmp_path / "etl.py").write_text(ETL.format(store='"sqlite:etl.db"'))
    process = _start(tmp_path)
    try:
        made = [sys.executable, "-c", "import etl; print(etl.load.delay('x').result(timeout=30))"]
        asked = subprocess.run(made, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE, check=False)
    finally:
        process.terminate()
        _, said = process.communicate(timeout=60)

    assert asked.stdout.endswith("loaded x\n"), asked.stderr + said
    assert not (tmp_path / "ganger.db").exists()


@pytest.mark.parametrize("words", [("--store", "sqlite:other.db"), ("--app", "other:app")])
def test_a_node_that_is_told_of_two_stores_refuses_to_guess(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "etl.py").write_text(ETL.format(store='"sqlite:etl.db"'))
    (tmp_path / "other.py").write_text(ETL.format(store='"sqlite:other.db"'))

    _, said = (process := _start(tmp_path, *words)).communicate(timeout=DEADLINE)

    assert process.returncode == 2
    assert "two stores are named" in said
    assert "etl.db" in said
    assert "other.db" in said
    assert not list(tmp_path.glob("*.db"))


def test_a_node_whose_app_cannot_be_imported_says_so_and_does_not_guess(tmp_path: Path) -> None:
    (tmp_path / "etl.py").write_text("raise RuntimeError('no')")

    _, said = (process := _start(tmp_path)).communicate(timeout=DEADLINE)

    assert process.returncode == 2
    assert "cannot be imported: RuntimeError: no [bad_input]" in said
