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


def test_a_pipe_is_read_by_the_command_and_its_venv_comes_first(tmp_path: Path, node: subprocess.Popen[bytes]) -> None:
    tool = tmp_path / "venv" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho tool of $VIRTUAL_ENV; cat\n")
    tool.chmod(0o755)
    environment = {**os.environ, "VIRTUAL_ENV": str(tmp_path / "venv")}

    made = subprocess.run(
        [*GANGER, "run", "--", "tool"],
        cwd=tmp_path, input="x\n", env=environment, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip

    assert made.stdout == f"tool of {tmp_path}/venv\nx\n"


def test_what_a_command_makes_has_the_mode_that_its_starter_would_give_it(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        process = subprocess.Popen([*GANGER, "up", "--name", "here"], cwd=tmp_path, stderr=subprocess.PIPE)
    finally:
        os.umask(mask)
    assert process.stderr is not None
    try:
        assert b"takes tasks" in process.stderr.readline()
        assert call(tmp_path, "run", "--", "touch", "made").returncode == 0
    finally:
        process.kill()
        process.wait(60)
        process.stderr.close()

    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "ganger.db-nodes" / "here" / "commands").stat().st_mode & 0o777 == 0o700


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
