"""`ganger result`, and tracebacks that stay readable."""

import asyncio
import json

import pytest

from ganger import open_engine
from ganger.core.retry import Retry, to_text
from ganger.engine import Claim, Fail, NewTask, Policy, Registration, Succeed
from tests.unit.cli.console import Console

TRACEBACK = """Traceback (most recent call last):
  File "shop.py", line 3, in sell
    raise ValueError("none left")
ValueError: none left
"""


def settle(console: Console, *outcomes: Succeed | Fail) -> list[int]:
    """Tasks that ended so."""

    async def run() -> list[int]:
        async with open_engine(console.url) as engine:
            queue = await engine.queues.create("sums", Policy(), by="test")
            ids = (await engine.submit([NewTask(queue.id, "function", b"{}") for _ in outcomes])).ids
            node = await engine.nodes.register(Registration("ada", "secret", slots=9))
            claimed = await engine.claim(Claim(node.id, (queue.id,), most=9, start=True))
            await engine.settle(list(zip(claimed, outcomes, strict=True)))
            return [int(task) for task in ids]

    return asyncio.run(run())


def test_a_result_is_printed_as_it_is_or_as_json(console: Console) -> None:
    text, number, nothing = settle(console, Succeed(b'"two\\nlines"'), Succeed(b'{"a": [1, 2]}'), Succeed())

    assert console.out("result", text) == "two\nlines"
    assert json.loads(console.out("result", text, "--json")) == "two\nlines"
    assert json.loads(console.out("result", number)) == {"a": [1, 2]}
    assert console.out("result", nothing) == "null"


def test_what_has_no_result_says_why(console: Console) -> None:
    (failed,) = settle(console, Fail(reason=TRACEBACK, again=False))
    waiting = console.submit("--", "true")

    said = console.err("result", failed, exits=1)
    assert said.startswith(f"task {failed} is failed: Traceback")
    assert said.endswith("\nValueError: none left")
    assert f"task {waiting} is queued" in console.err("result", waiting, exits=1)
    assert "[task_not_found]" in console.err("result", 999, exits=3)


@pytest.mark.parametrize("words", [("show",), ("events",), ("logs",)])
def test_a_traceback_keeps_its_lines(console: Console, words: tuple[str, ...]) -> None:
    (failed,) = settle(console, Fail(reason=TRACEBACK, again=False))

    printed = console.run(*words, *((failed,) if words != ("events",) else ()))
    lines = [line.strip() for line in (printed.stdout + printed.stderr).splitlines()]

    for line in TRACEBACK.strip().splitlines():
        assert line.strip() in lines


def test_an_error_of_several_lines_is_told_by_its_first(console: Console) -> None:
    (failed,) = settle(console, Fail(reason=TRACEBACK + "  the shelf is empty\nask again\n", again=False))

    shown = console.out("show", failed).splitlines()

    assert next(line for line in shown if line.startswith("reason")).endswith("ValueError: none left")


def test_a_task_that_succeeded_in_the_end_has_no_old_reason(console: Console) -> None:
    async def run() -> int:
        async with open_engine(console.url) as engine:
            policy = Policy(retry=to_text(Retry(max_attempts=2)))
            queue = await engine.queues.create("sums", policy, by="test")
            (task,) = (await engine.submit([NewTask(queue.id, "function", b"{}")])).ids
            node = await engine.nodes.register(Registration("ada", "secret"))
            for outcome in (Fail(reason="not yet", delay=0), Succeed()):
                claimed = await engine.claim(Claim(node.id, (queue.id,), start=True))
                await engine.settle([(claimed[0], outcome)])
            return int(task)

    shown = console.out("show", asyncio.run(run())).splitlines()

    assert not any(line.startswith("reason") for line in shown)
    assert any("not yet" in line for line in shown)
