"""The loop behind the SDK: opened late, closed in order, forgotten by a forked child."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ganger import Ganger
from ganger.client import Transport
from ganger.client.bridge import ThreadBridge
from ganger.core.errors import BadInput, StoreClosed, TaskNotFound


def test_nothing_is_opened_before_the_first_use(tmp_path: Path) -> None:
    with Ganger(f"sqlite:{tmp_path / 'g.db'}") as app:
        assert app.file == tmp_path / "g.db"
        assert not list(tmp_path.iterdir())
        assert app.command(["true"]).id == 1
    assert (tmp_path / "g.db").exists()


def test_a_closed_app_opens_again(tmp_path: Path) -> None:
    app = Ganger(f"sqlite:{tmp_path / 'g.db'}")
    with app:
        first = app.command(["true"])
    with app:
        assert first.cancel()
    app.close()


def test_an_error_at_opening_is_told_and_the_next_use_tries_again() -> None:
    app = Ganger("oracle:x")

    for _ in range(2):
        with pytest.raises(BadInput, match="no store is called 'oracle'"):
            app.command(["true"])


def test_many_threads_share_one_loop() -> None:
    with Ganger("memory:") as app, ThreadPoolExecutor(8) as pool:
        ids = sorted(handle.id for handle in pool.map(lambda _: app.command(["true"]), range(50)))

    assert ids == list(range(1, 51))


def test_errors_of_the_other_side_are_raised_here() -> None:
    with Ganger("memory:") as app, pytest.raises(TaskNotFound):
        app.handle(7).task()


@asynccontextmanager
async def _opening() -> AsyncIterator[Transport]:
    """A transport that nobody uses."""
    yield None  # type: ignore[misc]


class _Lingering:
    """A call that never ends by itself."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    async def call(self, _: Transport) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


def test_whoever_waits_when_the_app_is_closed_is_told() -> None:
    bridge, work = ThreadBridge(_opening), _Lingering()

    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(bridge.run, work.call)
        assert work.begun.wait(60)
        bridge.close()
        bridge.close()
        with pytest.raises(StoreClosed):
            told.result(60)
    assert work.ended.is_set()


def test_whoever_awaits_when_the_app_is_closed_is_told() -> None:
    bridge, work = ThreadBridge(_opening), _Lingering()

    async def ask() -> None:
        waiting = asyncio.create_task(bridge.arun(work.call))
        assert await asyncio.to_thread(work.begun.wait, 5)
        await asyncio.to_thread(bridge.close)
        with pytest.raises(StoreClosed):
            await waiting

    asyncio.run(asyncio.wait_for(ask(), 60))


def test_a_cancelled_caller_cancels_the_call() -> None:
    bridge, work = ThreadBridge(_opening), _Lingering()

    async def ask() -> None:
        task = asyncio.create_task(bridge.arun(work.call))
        assert await asyncio.to_thread(work.begun.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(ask())
    assert work.ended.wait(60)
    bridge.close()


ENDS = """
from ganger import Ganger
app = Ganger("sqlite:g.db")
print(app.command(["true"]).id)
"""

FORKS = """
import os
from ganger import Ganger
app = Ganger("sqlite:g.db")
print(app.command(["true"]).id, flush=True)
child = os.fork()
if not child:
    print(app.command(["true"]).id, flush=True)
    app.close()
    os._exit(0)
os.waitpid(child, 0)
print(app.command(["true"]).id)
app.close()
"""


def _run(program: str, folder: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", program],
        cwd=folder, capture_output=True, text=True, timeout=90, check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert not ran.stderr
    return ran.stdout


def test_a_program_that_never_closes_its_app_ends(tmp_path: Path) -> None:
    assert _run(ENDS, tmp_path) == "1\n"
    assert _run(ENDS, tmp_path) == "2\n"


def test_a_forked_child_opens_its_own(tmp_path: Path) -> None:
    assert _run(FORKS, tmp_path).split() == ["1", "2", "3"]
