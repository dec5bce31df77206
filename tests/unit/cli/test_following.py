"""Commands that go on while others work: each is a process of its own beside the one that works."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process

from ganger.core.ids import TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Succeed
from ganger.core.task import Claimed
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from tests.unit.cli.console import Console

DEADLINE = 30.0
PROGRAM = "from ganger.cli.main import main; main()"


async def _start(console: Console, *words: object) -> Process:
    given = [str(word) for word in words]
    command = (sys.executable, "-c", PROGRAM, *given, "--store", console.url)
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)


async def _read_line(process: Process) -> bytes:
    assert process.stdout is not None
    return await asyncio.wait_for(process.stdout.readline(), DEADLINE)


async def _finish(process: Process) -> tuple[bytes, int | None]:
    out, _ = await asyncio.wait_for(process.communicate(), DEADLINE)
    return out, process.returncode


async def _claim(engine: Engine, task: int) -> Claimed:
    node = await engine.nodes.register(Registration("worker", "token"))
    (claimed,) = await engine.claim(Claim(node.id, ids=(TaskId(task),), start=True))
    return claimed


def test_logs_are_followed_until_the_task_has_ended(console: Console) -> None:
    task = console.submit("--", "true")

    async def body(engine: Engine) -> None:
        claimed = await _claim(engine, task)
        await engine.append_output(claimed.lease, "mixedout", 0, b"one\n")
        process = await _start(console, "logs", "-f", task)
        assert await _read_line(process) == b"one\n"
        await engine.append_output(claimed.lease, "mixedout", 4, b"two\n")
        assert await _read_line(process) == b"two\n"
        await engine.settle([(claimed, Succeed())])
        assert await _finish(process) == (b"", 0)

    console.act(body)


def test_a_wait_ends_when_the_last_task_does(console: Console) -> None:
    task = console.submit("--", "true")

    async def body(engine: Engine) -> None:
        claimed = await _claim(engine, task)
        process = await _start(console, "wait", task, "--json")
        await engine.settle([(claimed, Succeed())])
        out, code = await _finish(process)
        assert (json.loads(out)["status"], code) == ("succeeded", 0)

    console.act(body)


def test_events_are_followed_until_somebody_interrupts(console: Console) -> None:
    task = console.submit("--", "true")

    async def body(engine: Engine) -> None:
        process = await _start(console, "events", "-f", "-n", 1, "--json")
        assert json.loads(await _read_line(process))["fact"] == "submitted"
        await engine.hold([TaskId(task)], by="tester")
        assert json.loads(await _read_line(process))["fact"] == "held"
        process.send_signal(signal.SIGINT)
        assert (await _finish(process))[1] == 130

    console.act(body)
