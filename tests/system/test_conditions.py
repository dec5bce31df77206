"""Conditions with a real node: both ways meet again, commands take no slot, and nothing is left of a probe."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ganger.assembly.embedded import open_engine
from ganger.assembly.node import OpenNode, open_node
from ganger.cli.graph import submit_graph
from ganger.cli.graph_file import read_graph
from ganger.core.ids import TaskId
from ganger.core.state import Status
from ganger.core.task import Task
from ganger.node.guardian.folder import RunFolder
from ganger.node.guardian.tree import find_marked
from ganger.node.options import NodeOptions
from tests.system.harness_node import PATIENCE, settings
from tests.unit.node.guarded import PATH, until

MEETING = """
build:
    exit 3
if good: build:finished
    expression = build.result == 0
publish: good:then
    true
mend: good:else
    touch mended
join: publish:finished mend:finished
until there: join
    shell = test -e mended
    every = 100ms
    deadline = 20s
last: there
    true
"""
BUSY = """
busy:
    until [ -e free ]; do sleep 0.05; done
until asked:
    shell = touch asked free
"""
SLOW = """
until slow:
    shell = setsid sleep 300 & : > began; sleep 300
    timeout = 300s
far: slow
    true
"""


FOREIGN = """
until asked:
    shell = touch asked
until here:
    delay = 1s
"""


class Scene:
    """A node with one slot, and a graph that was given to it."""

    def __init__(self, opened: OpenNode, ids: dict[str, int]) -> None:
        self.engine = opened.engine
        self.ids = ids

    async def get(self, name: str) -> Task:
        (task,) = await self.engine.tasks([TaskId(self.ids[name])])
        assert task is not None
        return task

    async def end(self, name: str = "") -> Task:
        await self.engine.wait([TaskId(self.ids[name])], PATIENCE)
        return await self.get(name)


@asynccontextmanager
async def staged(folder: Path, text: str, **options: Any) -> AsyncIterator[Scene]:
    async with open_node(settings(folder), NodeOptions("ada", **options)) as opened:
        ids = await submit_graph(opened.engine, read_graph(text, "make"), "default", "test")
        yield Scene(opened, ids)


def play(folder: Path, text: str, scenario: Callable[[Scene], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE), staged(folder, text, **options) as scene:
            await scenario(scene)

    asyncio.run(run())


def leftovers(folder: Path) -> list[int]:
    """Living processes of probes."""
    run = RunFolder(str(folder / "ganger.db-nodes" / "ada" / "probes"))
    return find_marked(run.read_mark())


def test_both_ways_of_an_if_meet_again_and_a_command_is_waited_for(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(scene: Scene) -> None:
        assert (await scene.end("last")).status == Status.SUCCEEDED
        skipped = await scene.get("publish")
        assert (skipped.status, skipped.reason) == (Status.CANCELLED, "skipped")
        group = await scene.end()
        assert (group.status, group.reason) == (Status.FAILED, "1 of its members did not succeed")

    play(tmp_path, MEETING, scenario)


def test_a_command_of_a_condition_takes_no_slot(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(scene: Scene) -> None:
        assert (await scene.end()).status == Status.SUCCEEDED
        assert (tmp_path / "asked").exists()

    play(tmp_path, BUSY, scenario, slots=1)


def test_a_node_asks_only_what_requires_its_own_labels(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    text = "until mine:\n shell = true\n requires = lab\nuntil other:\n shell = touch wrong\n requires = tape\n"

    async def scenario(scene: Scene) -> None:
        assert (await scene.end("mine")).status == Status.SUCCEEDED
        why = await scene.engine.explain(TaskId(scene.ids["other"]))
        assert "labels ['tape']" in why.reasons[0].sentence
        assert not (tmp_path / "wrong").exists()

    play(tmp_path, text, scenario, labels=("lab",))


def test_a_node_has_no_condition_of_a_queue_that_it_does_not_take_asked(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(scene: Scene) -> None:
        assert (await scene.end("here")).status == Status.SUCCEEDED
        why = await scene.engine.explain(TaskId(scene.ids["asked"]))
        assert "takes its queue" in why.reasons[0].sentence
        assert not (tmp_path / "asked").exists()

    play(tmp_path, FOREIGN, scenario, queues=("other",))


def test_a_node_that_ends_leaves_no_probe_and_the_next_one_asks_again(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(scene: Scene) -> None:
        await until((tmp_path / "began").exists)
        assert leftovers(tmp_path)

    play(tmp_path, SLOW, scenario)
    assert not leftovers(tmp_path)
    (tmp_path / "began").unlink()

    async def again(scene: Scene) -> None:
        await until((tmp_path / "began").exists)
        await scene.engine.cancel([TaskId(1)], by="test")
        tasks = await scene.engine.tasks([TaskId(1), TaskId(2), TaskId(3)])
        assert {task.status for task in tasks if task is not None} == {Status.CANCELLED}

    play(tmp_path, "nothing:\n true\n", again)
    assert not leftovers(tmp_path)


@asynccontextmanager
async def upped(folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A node in a process of its own."""
    words = ["-c", "from ganger.cli.main import main; main()", "up", "--name", "ada"]
    store = {"GANGER_STORE": settings(folder).store}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=folder, env={"PATH": PATH, "HOME": str(folder), **store}, stderr=DEVNULL
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def test_a_killed_node_leaves_its_probe_to_the_guardian_and_the_next_node_ends_it(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)

    async def run() -> None:
        began = tmp_path / "began"
        async with upped(tmp_path):
            async with open_engine(settings(tmp_path).store, upkeep=False) as engine:
                await submit_graph(engine, read_graph(SLOW, "make"), "default", "test")
            await until(began.exists)
            first = set(leftovers(tmp_path))
            assert first
        assert first <= set(leftovers(tmp_path))
        began.unlink()
        async with open_node(settings(tmp_path), NodeOptions("ada")):
            assert first.isdisjoint(leftovers(tmp_path))
            await until(began.exists)
        assert not leftovers(tmp_path)

    asyncio.run(run())
