"""`ganger up --log-format json`: standard output is a log, line by line, with the ids of tasks."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
pytestmark = [pytest.mark.slow]


def call(folder: Path, *words: str) -> str:
    ran = subprocess.run([*GANGER, *words], cwd=folder, capture_output=True, text=True, timeout=90, check=False)
    return ran.stdout.strip()


@pytest.fixture(params=["--listen=127.0.0.1:0", "--no-server"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = ["up", "--name", "here", "--slots", "1", "--log-format", "json", request.param]
    process = subprocess.Popen([*GANGER, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        while b"try in another terminal" not in (line := process.stderr.readline()):
            assert line, "the node did not come up"
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(60)
        process.stdout.close()
        process.stderr.close()


def test_every_line_is_json_and_tells_what_became_of_each_task(tmp_path: Path, node: subprocess.Popen[bytes]) -> None:
    task = int(call(tmp_path, "submit", "--shell", "exit 3"))
    call(tmp_path, "wait", str(task))
    node.send_signal(signal.SIGTERM)
    said, _ = node.communicate(timeout=90)

    lines = [json.loads(line) for line in said.splitlines()]
    assert all(line["at"].endswith("Z") and line["event"] for line in lines)
    of_task = {line["event"]: line for line in lines if line.get("task") == task}
    assert of_task["task_settled"]["reason"] == "it exited with code 3"
    assert of_task["task_settled"]["queue"] == "default"
    assert "task_claimed" in of_task
