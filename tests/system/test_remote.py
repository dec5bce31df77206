"""A server, a node on another folder, and people who know nothing but an address and a token."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

GANGER = [sys.executable, "-c", "from ganger.cli.main import main; main()"]
PATIENCE = 60
pytestmark = [pytest.mark.slow]

JOBS = """
from ganger import Ganger

app = Ganger()

@app.task
def add(a, b):
    return a + b

@app.task
def repeat(text, times):
    return text * times
"""

PROGRAM = """
from jobs import add, app, repeat

with app:
    assert add.delay(1, 2).result(timeout=60) == 3
    assert len(repeat.delay("x", 3_000_000).result(timeout=60)) == 3_000_000
    graph = app.graph()
    first = graph.add(add.bind(1, 2))
    second = graph.add(add.bind(first, 10))
    graph.submit()
    handle = app.shell("echo out; echo err >&2; exit 3")
    handle.wait(timeout=90)
    assert handle.logs("stdout") == "out\\n"
    print(app.handle(handle.number).status.name)
"""


SUBMITTER = """
from ganger import Ganger

with Ganger() as app:
    for number in range(300):
        print(app.command(["true"], description=f"number {number}").number, flush=True)
"""


class Stage:
    """Folders for the server, the node and the people, and the processes that were started in them."""

    def __init__(self, folder: Path) -> None:
        self.server_folder, self.node_folder, self.desk = (folder / name for name in ("server", "node", "desk"))
        for place in (self.server_folder, self.node_folder, self.desk):
            place.mkdir()
        self.url = ""
        self._processes: list[subprocess.Popen[bytes]] = []

    def start_server(self, listen: str = "127.0.0.1:0") -> subprocess.Popen[bytes]:
        process = self._start(self.server_folder, self._plain(), "server", "--listen", listen)
        line = self.read_line(process).split()
        self.url = next(word for word in line if word.startswith("http")).removesuffix(";").removesuffix("/v1/nodes")
        return process

    def start_node(self, *words: str, command: str = "up", **more: str) -> subprocess.Popen[bytes]:
        environment = {**self._plain(), "GANGER_TOKEN_FILE": str(self.server_folder / "ganger.db-admin-token"), **more}
        process = self._start(self.node_folder, environment, command, "--url", self.url, "--name", "far", *words)
        assert "takes tasks" in self.read_line(process)
        return process

    def call(self, *words: str, told: str | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment(**more)
        return subprocess.run(
            [*GANGER, *words], cwd=self.desk, env=environment, input=told, capture_output=True, text=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip

    def environment(self, **more: str) -> dict[str, str]:
        token = (self.server_folder / "ganger.db-admin-token").read_text().strip()
        return {**self._plain(), "GANGER_URL": self.url, "GANGER_TOKEN": token, **more}

    def _plain(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("GANGER_")}

    def _start(self, folder: Path, environment: dict[str, str], *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([*GANGER, *words], cwd=folder, env=environment, stderr=subprocess.PIPE)
        self._processes.append(process)
        return process

    def read_line(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stderr is not None
        return process.stderr.readline().decode()

    def close(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(PATIENCE)
            if process.stderr is not None:
                process.stderr.close()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    opened = Stage(tmp_path)
    try:
        yield opened
    finally:
        opened.close()


def soon(look: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.02)


def test_every_command_works_at_an_address_as_on_a_file(stage: Stage) -> None:
    stage.start_server()
    stage.start_node("--slots", "2")

    ran = stage.call("run", "--shell", "echo out; exit 3")
    assert (ran.stdout, ran.returncode) == ("out\n", 3)
    (number,) = stage.call(
        "submit", "--shell", "echo one; touch begun; sleep 0.5; echo two", "--cwd", str(stage.desk)
    ).stdout.split()
    assert stage.call("logs", "-f", number).stdout == "one\ntwo\n"
    assert stage.call("wait", number).returncode == 0
    assert "succeeded" in stage.call("show", number).stdout
    assert "it succeeded" in stage.call("why", number).stdout
    assert f" {number} " in stage.call("ls").stdout
    (endless,) = stage.call("submit", "--", "sleep", "1000").stdout.split()
    soon(lambda: "running" in stage.call("show", endless).stdout)
    assert stage.call("kill", endless).returncode == 0
    assert "terminated" in stage.call("wait", endless).stderr
    mapped = stage.call("map", "echo item-{}", told="1\n2\n3\n")
    assert mapped.returncode == 0, mapped.stderr
    assert "far" in stage.call("nodes").stdout
    assert stage.call("doctor", "--ready").returncode == 0
    assert not list(stage.desk.glob("ganger.db*"))


@pytest.mark.parametrize("command", ["up", "node"])
def test_a_node_is_started_with_an_address(stage: Stage, command: str) -> None:
    stage.start_server()
    stage.start_node("--slots", "1", command=command)

    assert stage.call("run", "--", "echo", "from afar").stdout == "from afar\n"


def test_what_needs_the_file_says_where_to_do_it(stage: Stage) -> None:
    stage.start_server()
    for words in (("backup", "x"), ("restore", "x"), ("doctor",), ("audit", "verify"), ("token", "ls"), ("server",)):
        refused = stage.call(*words)
        assert refused.returncode == 2, words
        assert "machine" in refused.stderr, refused.stderr
    assert "no server answers" in stage.call("ls", GANGER_URL="http://127.0.0.1:1").stderr
    assert "not_authenticated" in stage.call("ls", GANGER_TOKEN="wrong").stderr


def test_a_program_runs_its_functions_far_away(stage: Stage) -> None:
    stage.start_server()
    (stage.node_folder / "jobs.py").write_text(JOBS)
    (stage.desk / "jobs.py").write_text(JOBS)
    (stage.desk / "program.py").write_text(PROGRAM)
    stage.start_node("--slots", "2")

    ran = subprocess.run(
        [sys.executable, "program.py"], cwd=stage.desk, env=stage.environment(), capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip

    assert (ran.stdout, ran.stderr) == ("FAILED\n", "")


def test_a_restart_of_the_server_is_only_a_pause(stage: Stage) -> None:
    server = stage.start_server()
    stage.start_node()
    begun, gate = stage.desk / "begun", stage.desk / "gate"
    script = f"echo before; touch {begun}; until [ -e {gate} ]; do sleep 0.05; done; echo after"
    (number,) = stage.call("submit", "--shell", script).stdout.split()
    follower = subprocess.Popen(
        [*GANGER, "logs", "-f", number], cwd=stage.desk, env=stage.environment(), stdout=subprocess.PIPE
    )
    soon(begun.exists)
    assert follower.stdout is not None
    assert follower.stdout.readline() == b"before\n"

    server.terminate()
    assert server.wait(PATIENCE) == 0
    stage.start_server(stage.url.removeprefix("http://"))
    gate.touch()

    assert follower.stdout.read() == b"after\n"
    assert follower.wait(PATIENCE) == 0
    follower.stdout.close()
    assert stage.call("wait", number).returncode == 0
    shown = stage.call("show", number).stdout
    assert "attempts     1" in shown


def test_a_node_far_away_that_is_restarted_goes_on_with_its_commands(stage: Stage) -> None:
    stage.start_server()
    node = stage.start_node()
    begun, gate = stage.desk / "begun", stage.desk / "gate"
    script = f"touch {begun}; until [ -e {gate} ]; do sleep 0.05; done; echo survived"
    (number,) = stage.call("submit", "--shell", script).stdout.split()
    soon(begun.exists)

    node.send_signal(signal.SIGUSR1)
    assert node.wait(PATIENCE) == 0
    stage.start_node()
    gate.touch()

    assert stage.call("wait", number).returncode == 0
    assert stage.call("logs", number).stdout == "survived\n"
    assert "attempts     1" in stage.call("show", number).stdout


def test_a_node_runs_only_the_kinds_that_its_owner_allows(stage: Stage) -> None:
    stage.start_server()
    stage.start_node("--kind", "command")

    (refused,) = stage.call("submit", "--shell", "echo never").stdout.split()
    assert stage.call("run", "--", "echo", "this").stdout == "this\n"

    assert "queued" in stage.call("show", refused).stdout
    wrong = stage.call("up", "--kind", "everything")
    assert wrong.returncode == 2


def test_a_task_far_away_speaks_for_its_family(stage: Stage) -> None:
    stage.start_server()
    stage.start_node()
    ganger = f"{sys.executable} -c 'from ganger.cli.main import main; main()'"
    script = f"""set -e
    {ganger} progress 40 'half way'
    child=$({ganger} add --delay 1h -- echo child)
    {ganger} edit --family --priority 7 $child
    {ganger} family
    {ganger} ls || echo refused
    {ganger} rm $child || echo refused too
    """

    ran = stage.call("run", "--shell", script)

    assert ran.returncode == 0, ran.stdout
    assert "child" in ran.stdout
    assert "refused\n" in ran.stdout
    assert "refused too" in ran.stdout
    assert "half way" in stage.call("show", "1").stdout
    assert "priority     7" in stage.call("show", "2").stdout


def test_no_submission_is_lost_or_doubled_when_the_server_is_killed(stage: Stage) -> None:
    server = stage.start_server()
    (stage.desk / "submitter.py").write_text(SUBMITTER)
    submitter = subprocess.Popen(
        [sys.executable, "submitter.py"], cwd=stage.desk, env=stage.environment(), stdout=subprocess.PIPE
    )
    assert submitter.stdout is not None
    told: list[bytes] = []
    for _ in range(3):
        told += [submitter.stdout.readline() for _ in range(50)]
        server.kill()
        server.wait(PATIENCE)
        server = stage.start_server(stage.url.removeprefix("http://"))
    told += submitter.stdout.readlines()
    submitter.stdout.close()

    assert submitter.wait(PATIENCE) == 0
    exported = [json.loads(line) for line in stage.call("export").stdout.splitlines()]
    tasks = [line for line in exported if line["type"] == "task"]
    assert sorted(int(number) for number in told) == sorted(task["id"] for task in tasks)
    assert sorted(task["description"] for task in tasks) == sorted(f"number {number}" for number in range(300))
