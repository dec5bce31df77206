"""A node that is told of an app writes its schedules, and finds code in the folder of `ganger.toml`."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ganger import NewTask, Policy, Status, open_engine

GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
PRINTER = "clockwork_of_test:Printer"
DEADLINE = 40.0
pytestmark = [pytest.mark.slow]

MODULE = """
from pathlib import Path
from ganger import Ganger

app = Ganger(name="clockwork")

@app.every(1_000, queue="ticks")
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
