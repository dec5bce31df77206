"""`ganger node` and `ganger top`: what an operator does to nodes, and sees of them."""

import asyncio
import json
import os
import select
import sys
from asyncio.subprocess import PIPE, Process

from ganger.core.ids import TaskId
from ganger.core.node import NodeState, Registration
from ganger.core.outcome import Succeed
from ganger.core.task import Claimed
from ganger.engine.bell import Bell
from ganger.engine.engine import Engine
from ganger.engine.store import NODES_TOPIC, Claim
from tests.unit.cli.console import Console

DEADLINE = 30.0
PROGRAM = "from ganger.cli.main import main; main()"


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

    assert console.lines("node", "drain", "worker", "--json") == [{"node": "worker", "state": "draining", "running": 1}]
    assert console.lines("node", "ls", "--json")[0]["state"] == "draining"
    assert console.lines("audit", "verify", "--json")[0]["lines"] == 2
    assert "[node_not_found]" in console.err("node", "drain", "none", exits=3)


def test_a_drain_waits_for_what_runs(console: Console) -> None:
    task = console.submit("--", "true")

    async def body(engine: Engine) -> None:
        claimed = await _claim(engine, task)
        words = ("node", "drain", "worker", "--wait", "--json", "--store", console.url)
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, *words, stdout=PIPE)
        await _see_draining(engine)
        await engine.settle([(claimed, Succeed())])
        out, _ = await asyncio.wait_for(process.communicate(), DEADLINE)
        assert (json.loads(out)["running"], process.returncode) == (0, 0)

    console.act(body)


def test_without_a_terminal_the_view_is_printed_once(console: Console) -> None:
    task = console.submit("--description", "make films", "--", "true")
    console.act(lambda engine: _claim(engine, task))

    queues, nodes, running = console.out("top").split("\n\n")
    assert queues.split()[:2] == ["QUEUE", "WAIT"]
    assert "worker  active" in nodes
    assert running.splitlines()[1].split()[2:5] == ["40%", "worker", "make"]
    assert "make films: half  [2J way" in running


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
        assert b"q ends this view" in shown
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
