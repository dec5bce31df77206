"""`ganger up` is drained, restarted and started again, with real processes, while commands run."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
DEADLINE = 30.0
SCRIPT = "echo $$ > pid; echo begun; until test -e gate; do sleep 0.02; done; echo done; exit 3"

pytestmark = [pytest.mark.slow]
Process = subprocess.Popen[bytes]


def call(folder: Path, *words: str, exits: int = 0) -> str:
    done = subprocess.run([*GANGER, *words], cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == exits, (words, done)
    return done.stdout


@contextmanager
def up(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> Iterator[Process]:
    command = [*GANGER, "up", "--name", "here", "--slots", "1", *words]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, env={**os.environ, **(env or {})})
    assert process.stderr is not None
    try:
        assert b"takes tasks" in process.stderr.readline()
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(DEADLINE)
        process.stderr.close()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


def begin(folder: Path) -> tuple[str, int]:
    """A command that runs until the gate is there: its task and its process."""
    number = call(folder, "submit", "--shell", SCRIPT).strip()
    until(lambda: (folder / "pid").exists() and (folder / "pid").read_text().strip())
    until(lambda: show(folder, number)["status"] == "running")
    return number, int((folder / "pid").read_text())


def show(folder: Path, number: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(call(folder, "ls", "--json", "--from", str(int(number) + 1), "-n", "1"))
    assert str(found["id"]) == number
    return found


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def check_ended_once(folder: Path, number: str) -> None:
    call(folder, "wait", number, exits=1)
    found = show(folder, number)
    assert (found["code"], found["attempts"], found["crashes"], found["fence"]) == (2, 1, 0, 1)
    assert call(folder, "logs", number) == "begun\ndone\n"
    assert "exited with code 3" in str(found["reason"])


def test_a_command_runs_on_while_its_node_starts_anew_in_place(tmp_path: Path) -> None:
    with up(tmp_path) as process:
        number, pid = begin(tmp_path)
        epoch = tmp_path / "ganger.db-nodes" / "here" / "epoch"
        before = epoch.read_text()
        call(tmp_path, "node", "restart", "here")
        assert (epoch.read_text() != before, process.poll(), is_gone(pid)) == (True, None, False)
        (tmp_path / "gate").touch()
        check_ended_once(tmp_path, number)


@pytest.mark.parametrize("ends_between", [True, False])
def test_a_node_that_ends_leaves_its_commands_to_the_next(tmp_path: Path, ends_between: bool) -> None:
    with up(tmp_path) as process:
        number, pid = begin(tmp_path)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(DEADLINE) == 0
    assert not is_gone(pid)
    if ends_between:
        (tmp_path / "gate").touch()
        until(lambda: is_gone(pid))
    with up(tmp_path):
        (tmp_path / "gate").touch()
        check_ended_once(tmp_path, number)


def test_commands_wait_for_the_next_node_no_longer_than_the_handover(tmp_path: Path) -> None:
    with up(tmp_path, env={"GANGER_HANDOVER": "2s"}) as process:
        number, pid = begin(tmp_path)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(DEADLINE) == 0
    assert not is_gone(pid)
    until(lambda: is_gone(pid))
    (tmp_path / "gate").touch()
    with up(tmp_path):
        call(tmp_path, "wait", number, exits=1)
    assert show(tmp_path, number)["fence"] != 1, "it was another attempt"


def test_the_process_of_a_node_that_an_operator_drains_ends_with_0(tmp_path: Path) -> None:
    with up(tmp_path) as process:
        number, _ = begin(tmp_path)
        others = [call(tmp_path, "submit", "--", "true").strip() for _ in range(3)]
        call(tmp_path, "drain", "here")
        until(lambda: {show(tmp_path, other)["status"] for other in others} == {"queued"})
        assert process.poll() is None
        (tmp_path / "gate").touch()
        assert process.wait(DEADLINE) == 0
    check_ended_once(tmp_path, number)
    assert {show(tmp_path, other)["status"] for other in others} == {"queued"}
    assert call(tmp_path, "nodes", "--json") == ""


def test_a_drain_hands_back_what_outlasts_its_grace(tmp_path: Path) -> None:
    with up(tmp_path, "--grace", "200ms") as process:
        number, pid = begin(tmp_path)
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == 0
    assert is_gone(pid)
    found = show(tmp_path, number)
    assert (found["status"], found["attempts"], found["crashes"]) == ("queued", 0, 0)


def test_a_service_manager_hears_of_the_start_and_of_the_end(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(DEADLINE)
        with up(tmp_path, env={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as process:
            assert manager.recv(1024).splitlines()[0] == b"READY=1"
            process.send_signal(signal.SIGHUP)
            assert manager.recv(1024) == b"STATUS=starts anew"
            assert manager.recv(1024).splitlines()[0] == b"READY=1"
            process.send_signal(signal.SIGTERM)
            assert manager.recv(1024).splitlines()[0] == b"STOPPING=1"
            assert process.wait(DEADLINE) == 0


def test_a_node_whose_terminal_is_closed_ends_and_leaves_its_commands(tmp_path: Path) -> None:
    master, slave = os.openpty()
    command = [*GANGER, "up", "--name", "here"]
    process = subprocess.Popen(command, cwd=tmp_path, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        seen = b""
        while b"takes tasks" not in seen:
            assert select.select([master], [], [], DEADLINE)[0]
            seen += os.read(master, 65_536)
        _, pid = begin(tmp_path)
        os.close(master)
        process.send_signal(signal.SIGHUP)
        process.wait(DEADLINE)
        assert not is_gone(pid)
        with up(tmp_path):
            (tmp_path / "gate").touch()
            until(lambda: is_gone(pid))
    finally:
        process.kill()
        process.wait(DEADLINE)
