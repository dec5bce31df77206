"""`ganger map`: a process of its own beside the one that works."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence

import pytest

from ganger.cli.templates import fill, find_shell_words, split_template
from ganger.core.errors import BadInput
from ganger.core.node import Registration
from ganger.core.outcome import Fail, Hold, Succeed
from ganger.core.task import Claimed
from ganger.engine.engine import Engine
from ganger.engine.store import Claim
from tests.unit.cli.console import Console

pytestmark = pytest.mark.slow

DEADLINE = 30.0
PROGRAM = "from ganger.cli.main import main; main()"


async def _start(console: Console, *words: str, types: bytes = b"") -> Process:
    command = (sys.executable, "-c", PROGRAM, "map", "--store", console.url, *words)
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdin is not None
    process.stdin.write(types)
    process.stdin.close()
    return process


async def _finish(process: Process) -> tuple[str, str, int | None]:
    out, err = await asyncio.wait_for(process.communicate(), DEADLINE)
    return out.decode(), err.decode(), process.returncode


async def _claim(engine: Engine, most: int) -> list[Claimed]:
    queue = await engine.queues.ensure("default", by="tester")
    node = await engine.nodes.register(Registration("worker", "token"))
    claimed = await engine.wait_claim(Claim(node.id, (queue.id,), most=most, start=True), DEADLINE)
    assert len(claimed) == most
    return claimed


def _commands(claimed: Sequence[Claimed]) -> list[list[str]]:
    return [json.loads(task.spec or b"")["argv"] for task in claimed]


def test_every_item_gets_its_command(console: Console) -> None:
    async def body(engine: Engine) -> None:
        process = await _start(console, "-o", "convert {} {.}.png", "a.jpg", "b $c;.jpg", "-d.jpg")
        claimed = await _claim(engine, 3)
        assert _commands(claimed) == [
            ["convert", "a.jpg", "a.png"],
            ["convert", "b $c;.jpg", "b $c;.png"],
            ["convert", "-d.jpg", "-d.png"],
        ]
        for task in claimed:
            await engine.append_output(task.lease, "mixedout", 0, f"{task.id}\n".encode())
        await engine.settle([(task, Succeed()) for task in reversed(claimed)])
        out, err, code = await _finish(process)
        assert (out.split(), code) == ([str(task.id) for task in claimed], 0)
        assert "3 tasks: 3 succeeded" in err

    console.act(body)


def test_after_a_failure_what_waits_is_cancelled(console: Console) -> None:
    async def body(engine: Engine) -> None:
        process = await _start(console, "false", "a", "b", "c")
        failing, running = await _claim(engine, 2)
        await engine.settle([(failing, Fail(3, reason="it broke", again=False))])
        (waiting,) = (await engine.wait([type(failing.id)(running.id + 1)], DEADLINE)).statuses
        await engine.settle([(running, Succeed())])
        _, err, code = await _finish(process)
        assert (waiting, code) == (-5, 1)
        assert f"task {failing.id} failed(3): false a: it broke" in err
        assert "1 failed, 1 succeeded, 1 cancelled" in err

    console.act(body)


def test_with_keep_going_all_are_tried(console: Console) -> None:
    async def body(engine: Engine) -> None:
        process = await _start(console, "-k", "-0", "--json", "wc -l", types=b"a b\0c\0")
        claimed = await _claim(engine, 2)
        assert _commands(claimed) == [["wc", "-l", "a b"], ["wc", "-l", "c"]]
        await engine.settle([(claimed[0], Fail(2, again=False))])
        await engine.settle([(claimed[1], Succeed())])
        out, _, code = await _finish(process)
        statuses = [json.loads(line)["status"] for line in out.splitlines()]
        assert (statuses, code) == (["failed", "succeeded"], 1)

    console.act(body)


def test_when_only_held_tasks_are_left_it_ends_and_says_so(console: Console) -> None:
    async def body(engine: Engine) -> None:
        process = await _start(console, "-k", "job", "a", "b")
        first, second = await _claim(engine, 2)
        await engine.settle([(first, Hold("look at it")), (second, Succeed())])
        _, err, code = await _finish(process)
        assert code == 4
        assert f"task {first.id} held: job a: look at it" in err
        assert "1 held, 1 succeeded" in err

    console.act(body)


def test_a_failure_cancels_what_is_held_too(console: Console) -> None:
    async def body(engine: Engine) -> None:
        process = await _start(console, "job", "a", "b")
        first, second = await _claim(engine, 2)
        await engine.settle([(first, Hold("look at it"))])
        await engine.settle([(second, Fail(3, again=False))])
        _, err, code = await _finish(process)
        assert code == 1
        assert "1 cancelled, 1 failed" in err

    console.act(body)


def test_without_items_nothing_is_stored(console: Console) -> None:
    assert "nothing to do" in console.err("map", "echo {}", types="")
    assert not console.database.exists()


def test_a_command_that_can_not_be_split_is_refused() -> None:
    with pytest.raises(BadInput, match="split"):
        split_template("echo 'a")
    with pytest.raises(BadInput, match="empty"):
        split_template(" ")


def test_the_places_of_a_command_are_filled() -> None:
    words = split_template("cp {} out/{/}-{#} '{.} {x}'")

    assert fill(words, "in/a.b.txt", 7) == ["cp", "in/a.b.txt", "out/a.b.txt-7", "in/a.b {x}"]
    assert fill(split_template("cat"), "{.}", 1) == ["cat", "{.}"]
    assert find_shell_words(split_template("sort {} > '{}.sorted'")) == [">"]
    assert find_shell_words(split_template("sleep 1; echo {} >&2; x && y")) == ["1;", ">&2;", "&&"]
    assert find_shell_words(split_template("awk '{print; exit}' a&b <{} {}")) == []


def test_who_writes_the_command_as_words_is_told_to_quote_it(console: Console) -> None:
    assert "the command is one argument" in console.err("map", "cp", "{}", "{.}.bak", "a.txt", exits=2)
