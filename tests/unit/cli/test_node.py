"""`ganger node` and `ganger top`: what an operator does to nodes, and sees of them."""

import asyncio
import json
import os
import select
import shutil
import subprocess
import sys
from asyncio.subprocess import PIPE, Process

import pytest

from ganger.assembly.settings import Settings
from ganger.cli.functions import make_functions
from ganger.cli.systemd import quote
from ganger.cli.up import up
from ganger.core.ids import TaskId
from ganger.core.node import NodeState, Registration, Vitals
from ganger.core.outcome import Succeed
from ganger.core.task import Claimed
from ganger.engine.bell import Bell
from ganger.engine.engine import Engine
from ganger.engine.store import NODES_TOPIC, Claim
from ganger.node.functions.messages import Mode
from ganger.node.functions.options import FunctionOptions
from tests.unit.cli.console import Console

pytestmark = pytest.mark.slow

DEADLINE = 30.0
PROGRAM = "from ganger.cli.main import main; main()"


def test_a_node_is_told_how_its_functions_run() -> None:
    words = ["--mode", "thread", "--threads", "32", "--recycle-after", "1000", "--recycle-bytes", "500MB"]
    said = make_functions(up.make_context("up", words).params, Settings())
    plain = make_functions(up.make_context("up", []).params, Settings())

    assert (said.mode, said.threads, said.coroutines) == (Mode.THREAD, 32, plain.coroutines)
    assert (said.recycle_after, said.recycle_bytes) == (1_000, 500_000_000)
    assert plain == FunctionOptions(plain.folder)


async def _claim(engine: Engine, task: int) -> Claimed:
    node = await engine.nodes.register(Registration("worker", "token", slots=4))
    (claimed,) = await engine.claim(Claim(node.id, ids=(TaskId(task),)))
    await engine.start([claimed.lease])
    await engine.progress(claimed.lease, 40, "half \x1b[2J way")
    return claimed


async def _see_draining(engine: Engine) -> None:
    async with asyncio.timeout(DEADLINE):
        with Bell(engine.store, (NODES_TOPIC,)) as bell:
            while [node.state for node in await engine.nodes.all()] != [NodeState.DRAINING]:
                await bell.wait()
                bell.rung.clear()


def test_an_operator_drains_a_node(console: Console) -> None:
    task = console.submit("--", "true")
    console.act(lambda engine: _claim(engine, task))

    assert console.lines("node", "drain", "worker", "--json") == [
        {"node": "worker", "state": "draining", "running": 1, "claimed": 0}
    ]
    assert console.lines("node", "ls", "--json")[0]["state"] == "draining"
    assert console.lines("drain", "worker", "--resume", "--json")[0]["state"] == "active"
    assert console.err("drain", "worker").startswith("it takes nothing more; it still has 1 tasks")
    assert console.lines("audit", "verify", "--json")[0]["lines"] == 4
    assert "[node_not_found]" in console.err("drain", "none", exits=3)
    assert "give --wait or --resume" in console.err("drain", "worker", "--wait", "--resume", exits=2)


def test_a_drain_waits_for_what_runs(console: Console) -> None:
    task = console.submit("--", "true")

    async def body(engine: Engine) -> None:
        claimed = await _claim(engine, task)
        words = ("node", "drain", "worker", "--wait", "--json", "--store", console.url)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, *words, stdout=PIPE)
        await _see_draining(engine)
        await engine.settle([(claimed, Succeed())])
        await engine.nodes.leave(claimed.holder, "token")
        out, _ = await asyncio.wait_for(process.communicate(), DEADLINE)
        assert (json.loads(out), process.returncode) == (
            {"node": "worker", "state": "left", "running": 0, "claimed": 0},
            0,
        )

    console.act(body)


def test_whoever_waits_for_a_drain_hears_that_it_was_resumed(console: Console) -> None:
    task = console.submit("--", "true")

    async def body(engine: Engine) -> None:
        await _claim(engine, task)
        words = ("drain", "worker", "--wait", "--store", console.url)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, *words, stderr=PIPE)
        await _see_draining(engine)
        await engine.nodes.resume("worker", by="test")
        _, err = await asyncio.wait_for(process.communicate(), DEADLINE)
        assert (err, process.returncode) == (b"it takes tasks\n", 4)

    console.act(body)


async def _beat(engine: Engine, vitals: Vitals) -> None:
    node = await engine.nodes.register(Registration("worker", "token", slots=66))
    await engine.nodes.beat(node.id, "token", vitals=vitals)


def test_nodes_are_shown_with_their_slots_load_and_memory(console: Console) -> None:
    console.submit("--", "true")
    console.act(lambda engine: _beat(engine, Vitals(2, 1, 9, 0.5, 4 << 30, 16 << 30)))

    columns, row = (line.split() for line in console.out("nodes").splitlines())
    assert columns[:8] == ["NODE", "STATE", "SEEN", "SLOTS", "RUN", "CLAIMED", "LOAD", "MEMORY"]
    assert row[:2] + row[4:] == ["worker", "active", "2", "0", "0", "0.50", "25%", "of", "17", "GB", "all"]
    assert console.lines("nodes", "--json")[0]["vitals"]["held"] == 9


def _submit_three_and_take_two(console: Console) -> tuple[int, int]:
    """One that a node has begun, one that it has and has not begun, and one that waits."""
    begun, claimed, _ = (console.submit("--", "true") for _ in range(3))
    console.act(lambda engine: _claim(engine, begun))

    async def take(engine: Engine) -> None:
        (node,) = await engine.nodes.all()
        assert await engine.claim(Claim(node.id, ids=(TaskId(claimed),)))

    console.act(take)
    return begun, claimed


def test_a_node_tells_what_it_runs_from_what_it_has_only_claimed(console: Console) -> None:
    _submit_three_and_take_two(console)

    columns, row = (line.split() for line in console.out("node", "ls").splitlines())
    shift = len(row) - len(columns) + 1  # "0s ago" are two words, and there are no labels
    assert [row[columns.index(name) + shift] for name in ("SLOTS", "RUN", "CLAIMED")] == ["4", "1", "1"]
    (told,) = console.lines("nodes", "--json")
    assert (told["running"], told["claimed"]) == (1, 1)


def test_stats_tell_running_from_claimed(console: Console) -> None:
    _submit_three_and_take_two(console)

    columns, row = (line.split() for line in console.out("stats").splitlines())
    told = dict(zip(columns, row, strict=True))
    assert (told["WAIT"], told["CLAIMED"], told["RUN"], told["TOTAL"]) == ("1", "1", "1", "3")
    assert console.lines("stats", "--json")[0]["statuses"] == {"queued": 1, "claimed": 1, "running": 1}


def test_top_tells_running_from_claimed(console: Console) -> None:
    begun, claimed = _submit_three_and_take_two(console)

    queues, nodes, *tasks = (part.splitlines()[1:] for part in console.out("top").split("\n\n"))
    counted = dict(zip(queues[0].split(), queues[1].split(), strict=True))
    assert (counted["CLAIMED"], counted["RUN"]) == ("1", "1")
    assert nodes[0].split()[3:6] == ["SLOTS", "RUN", "CLAIMED"]
    assert nodes[1].split()[4:7] == ["4", "1", "1"]
    assert [[line.split()[0] for line in part] for part in tasks] == [["ID", str(begun)], ["ID", str(claimed)]]


def test_readiness_fails_when_no_work_is_taken(console: Console) -> None:
    console.submit("--", "true")
    assert "none is here" in console.run("doctor", "--ready", exits=1).stdout
    console.act(lambda engine: _beat(engine, Vitals(2, 2)))
    assert "takes tasks" in console.out("doctor", "--ready")
    assert console.lines("doctor", "--node", "worker", "--json") == [
        {"what": "worker", "well": True, "seen": "takes tasks"}
    ]
    assert "other is not here" in console.run("doctor", "--node", "other", exits=1).stdout
    console.act(lambda engine: _beat(engine, Vitals(2, 0, trouble="nothing can be claimed: away")))
    assert "nothing can be claimed: away" in console.run("doctor", "--ready", exits=1).stdout
    assert "unready" in console.out("nodes")


def test_a_node_that_nobody_runs_here_cannot_be_started_anew(console: Console) -> None:
    console.submit("--", "true")

    assert "[node_not_found]" in console.err("node", "restart", "nobody", exits=3)


def test_the_unit_file_names_the_store_and_leaves_commands_to_the_next(console: Console) -> None:
    unit = console.out("systemd", "--name", "ada").splitlines()

    assert any(line.startswith("ExecStart=/") and f"--store {console.url}" in line for line in unit)
    assert {"Type=notify", "KillMode=process", "RestartKillSignal=SIGUSR1", "Delegate=yes"} <= set(unit)
    assert not any(line.startswith("UMask=") for line in unit)
    assert not any(line.startswith("User=") for line in console.out("systemd", "--user").splitlines())
    assert console.err("systemd", "--name", "a\nExecStart=/bin/evil", exits=2)


def test_the_unit_file_has_the_options_of_up(console: Console) -> None:
    words = ("--queue", "films", "--queue", "my books", "--slots", "4", "--handover", "90s", "--no-server")
    (start,) = [
        line
        for line in console.out("systemd", *words, "--path", "src", "--grace", "10m").splitlines()
        if line.startswith("ExecStart=")
    ]

    options = f'--slots 4 --queue films --queue "my books" --path {console.folder}/src --handover 1m30s --no-server'
    assert start.endswith(f"--grace 10m {options}")
    assert "TimeoutStopSec=630" in console.out("systemd", "--grace", "10m")
    assert "no kind" in console.err("systemd", "--kind", "magic", exits=2)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_finds_nothing_wrong_with_the_unit_file(console: Console) -> None:
    unit = console.folder / "ganger-test.service"
    unit.write_text(console.out("systemd") + "\n")

    words = ["systemd-analyze", "verify", "--man=no", str(unit)]
    checked = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, check=False)

    assert [line for line in checked.stderr.splitlines() if unit.name in line] == []


def test_words_of_a_unit_file_are_quoted_as_systemd_reads_them() -> None:
    assert quote("sqlite:/srv/100%/my tasks.db") == '"sqlite:/srv/100%%/my tasks.db"'
    assert quote("%H", specifiers=True) == "%H"
    assert quote('a"b$c') == '"a\\"b$$c"'


def test_without_a_terminal_the_view_is_printed_once(console: Console) -> None:
    task = console.submit("--description", "make films", "--", "true")
    console.act(lambda engine: _claim(engine, task))

    queues, nodes, running = console.out("top").split("\n\n")
    assert queues.split()[:3] == ["queues", "QUEUE", "WAIT"]
    assert "worker  active" in nodes
    assert running.splitlines()[2].split()[2:] == ["40%", "half", "[2J", "way", "worker", "default", "make", "films"]


def test_the_view_of_an_empty_store_is_empty(console: Console) -> None:
    console.run("rm", console.submit("--", "true"))

    assert "default" in console.out("top")


def test_on_a_terminal_q_ends_the_view(console: Console) -> None:
    console.submit("--", "true")
    master, slave = os.openpty()

    async def body() -> None:
        words = (sys.executable, "-c", PROGRAM, "top", "--store", console.url)
        process = await asyncio.create_subprocess_exec(*words, stdin=slave, stdout=slave, stderr=PIPE)
        shown = await asyncio.to_thread(_read_until, master, b"default")
        assert b"q end" in shown
        os.write(master, b"q")
        assert await _ended(process, master) == 0

    asyncio.run(body())
    os.close(slave)
    os.close(master)


def _read_until(terminal: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], DEADLINE)
        assert ready, seen
        seen += os.read(terminal, 65_536)
    return seen


async def _ended(process: Process, terminal: int) -> int | None:
    """Its exit code; what it still draws is read, so that it is not stopped by a full terminal."""
    await asyncio.to_thread(_read_until, terminal, b"\x1b[?1049l")
    await asyncio.wait_for(process.communicate(), DEADLINE)
    return process.returncode
