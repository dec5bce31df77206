"""Commands that go on while others work: each is a process of its own beside the one that works."""

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process

import pytest

from ganger.core.ids import TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Fail, Hold, Succeed
from ganger.core.task import Claimed
from ganger.engine.engine import Engine
from ganger.engine.settle import Settled
from ganger.engine.store import Claim
from tests.unit.cli.console import Console

pytestmark = pytest.mark.slow

DEADLINE = 30.0
PROGRAM = "from ganger.cli.main import main; main()"
LISTENING = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {PROGRAM}"
"""Whoever starts the tests in the background of a script has them, and what they start, ignore interrupts."""


async def _start(console: Console, *words: object) -> Process:
    given = [str(word) for word in words]
    command = (sys.executable, "-c", LISTENING, *given, "--store", console.url)
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
        await engine.append_output(claimed.lease, "stdout", 0, b"one\n")
        process = await _start(console, "logs", "-f", task)
        assert await _read_line(process) == b"one\n"
        await engine.append_output(claimed.lease, "stdout", 4, b"two\n")
        assert await _read_line(process) == b"two\n"
        assert (await engine.nodes.beat(claimed.holder, "token")).followed == (claimed.id,)
        await engine.settle([(claimed, Succeed())])
        assert await _finish(process) == (b"", 0)

    console.act(body)


def test_standard_error_is_kept_apart_while_both_are_followed(console: Console) -> None:
    task = console.submit("--", "true")

    async def body(engine: Engine) -> None:
        claimed = await _claim(engine, task)
        process = await _start(console, "logs", "-f", task)
        await engine.append_output(claimed.lease, "stdout", 0, b"out\n")
        await engine.append_output(claimed.lease, "stderr", 0, b"err\n")
        await engine.append_output(claimed.lease, "mixedout", 0, b"out\nerr\n")
        await engine.settle([(claimed, Succeed())])
        out, err = await asyncio.wait_for(process.communicate(), DEADLINE)
        assert (out, err, process.returncode) == (b"out\n", b"err\n", 0)

    console.act(body)


def test_output_that_was_kept_together_only_is_printed_at_the_end(console: Console) -> None:
    task = console.submit("--", "true")

    async def body(engine: Engine) -> None:
        claimed = await _claim(engine, task)
        await engine.append_output(claimed.lease, "mixedout", 0, b"both\n")
        process = await _start(console, "logs", "-f", task)
        await engine.settle([(claimed, Succeed())])
        assert await _finish(process) == (b"both\n", 0)

    console.act(body)


async def _run_one(console: Console, engine: Engine) -> tuple[Process, Claimed]:
    """`ganger run`, and its task in the hands of a node."""
    queue = await engine.queues.ensure("default", by="tester")
    process = await _start(console, "run", "--shell", "echo one")
    node = await engine.nodes.register(Registration("worker", "token"))
    (claimed,) = await engine.wait_claim(Claim(node.id, (queue.id,), start=True), DEADLINE)
    await engine.append_output(claimed.lease, "stdout", 0, b"one\n")
    return process, claimed


def test_a_run_ends_when_its_task_is_held_and_shows_what_was_written(console: Console) -> None:
    async def body(engine: Engine) -> None:
        process, claimed = await _run_one(console, engine)
        await engine.settle([(claimed, Hold("look at it"))])
        out, err = await asyncio.wait_for(process.communicate(), DEADLINE)
        assert (out, process.returncode) == (b"one\n", 4)
        assert f"ganger kick {claimed.id}".encode() in err

    console.act(body)


def test_a_run_that_took_too_long_exits_as_timeout_does(console: Console) -> None:
    async def body(engine: Engine) -> None:
        process, claimed = await _run_one(console, engine)
        await engine.settle([(claimed, Fail(124, "timed out after 5 ms"))])
        assert await _finish(process) == (b"one\n", 124)

    console.act(body)


def test_who_leaves_a_run_is_told_that_it_goes_on(console: Console) -> None:
    async def body(engine: Engine) -> None:
        process, claimed = await _run_one(console, engine)
        assert await _read_line(process) == b"one\n"
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), DEADLINE)
        assert (f"ganger kill {claimed.id}" in err.decode(), process.returncode) == (True, 130)
        assert await engine.settle([(claimed, Succeed())]) == Settled([], [])

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
