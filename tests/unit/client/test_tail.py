"""What a task prints is read as text, as it comes, from plain code and from async code."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ganger import Ganger
from ganger.assembly.client import EngineTransport
from ganger.client import Transport
from ganger.core.errors import TaskNotFound
from ganger.core.ids import TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Succeed
from ganger.core.task import Claimed
from ganger.engine.engine import Engine
from ganger.engine.store import Claim


def engine_of(transport: Transport) -> Engine:
    assert isinstance(transport, EngineTransport)
    return transport.engine


class Worker:
    """Takes a task, writes for it, and ends it, when the test says so."""

    def __init__(self, app: Ganger, task: TaskId) -> None:
        self._app = app
        self._held: Claimed = app.bridge.run(lambda transport: self._take(engine_of(transport), task))

    async def _take(self, engine: Engine, task: TaskId) -> Claimed:
        node = await engine.nodes.register(Registration("worker", "token"))
        (held,) = await engine.claim(Claim(node.id, ids=(task,), start=True))
        return held

    def write(self, start: int, body: bytes, stream: str = "stdout") -> None:
        async def write(transport: Transport) -> None:
            await engine_of(transport).append_output(self._held.lease, stream, start, body)

        self._app.bridge.run(write)

    def end(self) -> None:
        async def settle(transport: Transport) -> None:
            await engine_of(transport).settle([(self._held, Succeed())])

        self._app.bridge.run(settle)


def test_output_is_read_as_it_comes() -> None:
    with Ganger("memory:", upkeep=False) as app:
        handle = app.command(["true"])
        worker = Worker(app, handle.id)
        worker.write(0, b"one\n")
        texts = handle.follow()
        assert next(texts) == "one\n"
        worker.write(0, b"oops\n", "stderr")
        assert next(texts) == "oops\n"
        worker.write(4, b"two\n")
        worker.end()
        assert list(texts) == ["two\n"]
        assert list(handle.follow("stderr")) == ["oops\n"]


def test_a_character_that_comes_in_two_pieces_is_kept_together() -> None:
    with Ganger("memory:", upkeep=False) as app:
        handle = app.command(["true"])
        worker = Worker(app, handle.id)
        texts = handle.follow()
        worker.write(0, "a\u00fc".encode()[:2])
        assert next(texts) == "a"
        worker.write(2, "\u00fc".encode()[1:] + b"\xff\xc3")
        worker.end()
        assert "".join(texts) == "\u00fc\\xff\\xc3"


def test_async_code_reads_it_too_and_may_leave_early() -> None:
    async def read(app: Ganger, worker: Worker, task: TaskId) -> list[str]:
        found = []
        texts = app.handle(task).aio.follow()
        async for text in texts:
            found.append(text)
            if text == "two\n":
                await texts.aclose()
            else:
                await asyncio.to_thread(worker.write, 4, b"two\n")
        return found

    with Ganger("memory:", upkeep=False) as app:
        handle = app.command(["true"])
        worker = Worker(app, handle.id)
        worker.write(0, b"one\n")
        reading: Coroutine[Any, Any, list[str]] = read(app, worker, handle.id)
        assert asyncio.run(reading) == ["one\n", "two\n"]


def test_a_task_that_is_not_there_is_an_error() -> None:
    with Ganger("memory:", upkeep=False) as app, pytest.raises(TaskNotFound):
        list(app.handle(TaskId(99)).follow())
