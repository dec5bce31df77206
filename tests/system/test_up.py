"""A person starts a node in one terminal and runs commands from another."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.node.guarded import is_alive

GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
pytestmark = [pytest.mark.slow]


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GANGER, *words], cwd=folder, capture_output=True, text=True, timeout=90, check=False)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*GANGER, "up", "--name", "here", "--slots", "2"], cwd=tmp_path, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert b"takes tasks" in process.stderr.readline()
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(60)
        process.stderr.close()


def test_a_command_is_run_shown_and_ends_with_its_own_code(tmp_path: Path, node: subprocess.Popen[bytes]) -> None:
    good = call(tmp_path, "run", "--", "echo", "hello")
    bad = call(tmp_path, "run", "--shell", "echo out; echo err >&2; exit 3")

    assert (good.stdout, good.returncode) == ("hello\n", 0)
    assert bad.stdout == "out\n"
    assert bad.stderr.startswith("err\n")
    assert bad.returncode == 3
    assert "exited with code 3" in bad.stderr


def test_a_signal_lets_what_runs_finish(tmp_path: Path, node: subprocess.Popen[bytes]) -> None:
    (number,) = call(tmp_path, "submit", "--shell", "touch begun; sleep 1; echo done").stdout.split()
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(node.pid, signal.SIGTERM)

    assert node.wait(60) == 0
    assert call(tmp_path, "logs", number).stdout == "done\n"
    assert "succeeded" in call(tmp_path, "show", number).stdout


def test_a_second_signal_ends_what_runs_and_gives_it_back(tmp_path: Path, node: subprocess.Popen[bytes]) -> None:
    (number,) = call(tmp_path, "submit", "--shell", "echo $$ > begun; sleep 1000").stdout.split()
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(node.pid, signal.SIGINT)
    assert node.stderr is not None
    while b"again" not in (line := node.stderr.readline()):
        assert line
    os.kill(node.pid, signal.SIGINT)

    node.wait(60)
    shown = json.loads(call(tmp_path, "show", number, "--json").stdout)
    assert (shown["status"], shown["attempts"], shown["crashes"]) == ("queued", 0, 0)
    assert not is_alive(int((tmp_path / "begun").read_text()))


def test_a_command_that_nobody_can_run_says_so(tmp_path: Path) -> None:
    process = subprocess.Popen([*GANGER, "run", "--", "true"], cwd=tmp_path, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        assert b"no node is here" in process.stderr.readline()
    finally:
        process.kill()
        process.wait(60)
        process.stderr.close()
