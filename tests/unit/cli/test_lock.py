"""`ganger lock`, `ganger leader` and `ganger members`, as a person runs them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ganger.assembly.coordination import open_coordination
from tests.unit.cli.console import Console

PATIENCE = 60.0
SCRIPT = "sleep 1000 & setsid sh -c 'trap \"\" TERM; sleep 1000 & echo in; wait' & wait"


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"file:{tmp_path / 'documents'}"


def start(address: str, *words: str) -> subprocess.Popen[str]:
    program = "import sys; from ganger.cli.main import main; sys.argv[0] = 'ganger'; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "GANGER_STORE": address},
    )  # fmt: skip


def run(address: str, *words: str) -> tuple[int, str, str]:
    process = start(address, *words)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


@pytest.fixture
def holder(address: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has the lock `a`, for as long as its standard output is read."""
    process = start(address, "lock", "a", "--ttl", "2s", "--", "sh", "-c", "echo in; exec sleep 1000")
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    yield process
    process.kill()
    process.communicate()


def test_a_command_runs_under_its_lock_and_gives_its_code(address: str) -> None:
    code, out, _ = run(address, "lock", "a", "--", "sh", "-c", "echo $GANGER_LOCK $GANGER_EPOCH; exit 7")

    assert (code, out) == (7, "lock/a 1.1\n")
    assert run(address, "lock", "a", "--slots", "2", "--", "true")[0] == 0
    assert run(address, "lock", "a", "--", "sh", "-c", "kill -9 $$")[0] == 137


def test_codes_are_those_of_flock(address: str, holder: subprocess.Popen[str]) -> None:
    code, out, err = run(address, "lock", "a", "-n", "--", "echo", "in")

    assert (code, out) == (1, "")
    assert "lock_busy" in err
    assert run(address, "lock", "-n", "-E", "9", "a", "--", "true")[0] == 9
    assert run(address, "lock", "a", "--wait", "200ms", "--", "true")[0] == 1
    assert run(address, "lock", "b", "--", "./nothing")[0] == 69
    assert run(address, "lock", "b")[0] == 2
    assert run(address, "lock", "", "--", "true")[0] == 2
    assert run(address, "lock", "b", "--ttl", "1ms", "--", "true")[0] == 2
    assert run("http://127.0.0.1:1", "lock", "b", "--", "true")[0] == 2
    assert run("elasticsearch+http://127.0.0.1:1/x", "lock", "b", "--", "true")[0] == 5


def test_a_waiter_gets_the_lock_of_one_who_was_killed(address: str, holder: subprocess.Popen[str]) -> None:
    waiting = start(address, "lock", "a", "--ttl", "2s", "--wait", "30s", "--", "echo", "in")
    holder.kill()
    out, err = waiting.communicate(timeout=PATIENCE)

    assert (waiting.returncode, out) == (0, "in\n"), err


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_all_of_a_command_ends_when_the_one_who_held_its_lock_is_killed_or_stopped(
    address: str, how: signal.Signals
) -> None:
    process = start(address, "lock", "a", "--ttl", "1s", "--", "sh", "-c", SCRIPT)
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    descendants = psutil.Process(process.pid).children(recursive=True)
    assert len(descendants) >= 5
    process.send_signal(how)

    _, alive = psutil.wait_procs(descendants[1:], PATIENCE)
    process.kill()
    process.communicate()
    assert not alive


def test_a_keeper_that_is_killed_takes_the_command_with_it(address: str, holder: subprocess.Popen[str]) -> None:
    keeper, command = psutil.Process(holder.pid).children(recursive=True)
    keeper.kill()

    command.wait(PATIENCE)
    assert holder.wait(PATIENCE) == 75


def test_all_of_a_command_is_killed_when_its_lock_is_lost(address: str, tmp_path: Path) -> None:
    process = start(address, "lock", "a", "--ttl", "1s", "--", "sh", "-c", SCRIPT)
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"
    descendants = psutil.Process(process.pid).children(recursive=True)
    assert len(descendants) >= 4
    file = tmp_path / "documents" / "lock%2Fa.json"
    steal(file)
    _, err = process.communicate(timeout=PATIENCE)

    assert process.returncode == 75
    assert "was lost" in err
    _, alive = psutil.wait_procs(descendants, PATIENCE)
    assert not alive


def steal(file: Path) -> None:
    """Somebody writes another holder, as often as it takes: a renewal may come in between."""
    mark = json.loads(file.read_text().splitlines()[1])
    document = {"holder": "thief", "expire": round(time.time() * 1_000) + 60_000}
    content = f"{json.dumps(document)}\n{json.dumps([mark[0], mark[1], mark[2] + 1_000])}\n"
    draft = file.with_name("draft")
    draft.write_text(content)
    draft.replace(file)


def test_a_term_is_handed_to_the_command(address: str, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGTERM)
    holder.communicate(timeout=PATIENCE)

    assert holder.returncode == 128 + signal.SIGTERM
    assert run(address, "lock", "a", "-n", "--", "true")[0] == 0


def test_who_leads_is_shown(address: str) -> None:
    assert run(address, "leader")[:2] == (0, "")
    assert run(address, "leader", "chief")[0] == 3
    process = start(address, "leader", "chief", "--", "sh", "-c", "echo in; exec sleep 1000")
    assert process.stdout is not None
    assert process.stdout.readline() == "in\n"

    _, out, _ = run(address, "leader", "--json", "chief")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert json.loads(out)["leader"] == "chief"
    assert run(address, "leader", "chief")[0] == 3


def test_members_are_listed(tmp_path: Path) -> None:
    console = Console(tmp_path)
    assert "no members" in console.err("members")

    async def join(body: Any) -> None:
        async with open_coordination(console.url) as coordination:
            cluster = coordination.cluster("etl", ttl=60_000)
            presence = cluster.join(3, "first")
            await presence.start()
            await presence.ready.wait()
            await cluster.partitions.create("p", b"work")
            await cluster.partitions.take("first", 1, 0, 1)
            await asyncio.to_thread(body)
            await presence.stop()

    def look() -> None:
        (line,) = console.lines("members", "etl", "--json")
        assert (line["member"], line["workers"], line["partitions"]) == ("first", 3, 1)
        assert "first" in console.out("members", "etl")

    asyncio.run(join(look))
    assert "no members" in console.err("members", "etl")
