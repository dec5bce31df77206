"""A node as `disbatchd` is one: hundreds of plugins at once, and a restart that disturbs none of them.

It is told on a file and on MongoDB. The environment's GANGER_TEST_THREADS says how many are at once; in full:

    GANGER_TEST_THREADS=500 python -m pytest tests/system/test_disbatch_node.py
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

GANGER: Final = (sys.executable, "-c", "from ganger.cli.main import main; main()")
AT_ONCE: Final = int(os.environ.get("GANGER_TEST_THREADS", "60"))
PATIENCE: Final = 120.0
PROGRAM: Final = """#!/bin/sh
cd HERE
: > "begun.$$"
until test -e gate; do sleep 0.2; done
echo run >> runs
printf '{"status": 1}' > "$2"
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 2 * AT_ONCE)]


class Place:
    """A folder with a plugin that waits for a gate, and nodes on one store."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        program = folder / "program"
        program.write_text(PROGRAM.replace("HERE", str(folder)))
        program.chmod(0o700)
        self.environment = {**os.environ, "GANGER_STORE": store, "GANGER_PLUGINS": f"Wait::For::Gate={program}"}

    def call(self, *words: str, types: str = "") -> str:
        done = subprocess.run(
            [*GANGER, *words],
            cwd=self.folder,
            env=self.environment,
            input=types,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return done.stdout

    @contextmanager
    def up(self) -> Iterator[subprocess.Popen[bytes]]:
        words = [*GANGER, "up", "--no-server", "--quiet", "--name", "here", "--slots", str(AT_ONCE)]
        with (self.folder / "said").open("wb") as said:
            node = subprocess.Popen(words, cwd=self.folder, env=self.environment, stderr=said)
        try:
            yield node
        finally:
            (self.folder / "gate").touch()
            node.terminate()
            node.wait(PATIENCE)

    def fill(self, number: int) -> None:
        self.call("disbatch", "create", "gated", "Wait::For::Gate")
        self.call("disbatch", "add", "gated", types="\n".join(f'{{"n": {n}}}' for n in range(number)))

    def count_begun(self) -> int:
        return len(list(self.folder.glob("begun.*")))

    def count_starts(self) -> int:
        return (self.folder / "said").read_text().count("takes tasks")

    def read_queue(self) -> dict[str, Any]:
        lines = self.call("disbatch", "status", "--json").splitlines()
        return next(found for found in map(json.loads, lines) if found["name"] == "gated")


@pytest.fixture(params=["sqlite", "mongo"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place(tmp_path, f"sqlite:{tmp_path / 'ganger.db'}")
    make: Callable[[], str] = request.getfixturevalue("mongo_url")
    return Place(tmp_path, make())


def until(happens: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE + AT_ONCE
    while not happens():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.1)


def test_a_node_runs_hundreds_of_plugins_at_once(place: Place) -> None:
    place.fill(AT_ONCE)
    with place.up():
        # None of them ends before all have begun: so they are all there at once.
        until(lambda: place.count_begun() == AT_ONCE)
        (place.folder / "gate").touch()
        until(lambda: place.read_queue()["completed"] == AT_ONCE)

    assert (place.folder / "runs").read_text() == "run\n" * AT_ONCE


def test_a_restart_disturbs_no_plugin_that_runs(place: Place) -> None:
    place.fill(5)
    with place.up() as node:
        until(lambda: place.count_begun() == 5)
        node.send_signal(signal.SIGHUP)
        until(lambda: place.count_starts() == 2)
        assert place.read_queue()["running"] == 5
        (place.folder / "gate").touch()
        until(lambda: place.read_queue()["completed"] == 5)

    assert (place.folder / "runs").read_text() == "run\n" * 5
    assert place.count_begun() == 5
