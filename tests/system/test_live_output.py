"""Output of real commands and functions is seen while it is written, and whoever follows does not slow the writer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from glob import glob
from pathlib import Path
from typing import Any

import pytest

from ganger.core.ids import Fence, TaskId
from ganger.core.state import Status
from ganger.engine.store import Note
from tests.system.harness import Crew, crew
from tests.system.harness_node import PATIENCE, Desk, appear, desk, node_in, serve_node
from tests.yardstick import Slowness, measuring

pytestmark = [pytest.mark.chaos]

LATEST = 1.5
"""Seconds: on an idle machine it is a quarter of one."""

ROUNDS = 3
"""The best of these counts: whatever else the machine does makes it worse, never better."""

LINES = "for i in $(seq {count}); do date +'%s.%N line '$i; sleep {pause}; done"


def play(folder: Path, scenario: Callable[[Desk, Crew], Awaitable[None]]) -> Slowness:
    async def run() -> None:
        with crew() as processes:
            async with asyncio.timeout(2 * PATIENCE), desk(folder) as made:
                await scenario(made, processes)

    with measuring(folder) as slowness:
        asyncio.run(run())
    return slowness


async def read_lines(desk: Desk, task: TaskId, stream: str = "stdout") -> list[tuple[str, float]]:
    """Each line as it comes, and how long after it was written."""
    lines, rest = [], b""
    async with aclosing(desk.engine.follow_output(task, [stream])) as pieces:
        async for piece in pieces:
            *whole, rest = (rest + piece.body).split(b"\n")
            now = time.time()
            lines += [(line.decode().split(" ", 1), now) for line in whole]
    assert rest == b""
    return [(text, now - float(written)) for (written, text), now in lines]


async def measure_stored(desk: Desk) -> dict[str, tuple[int, int]]:
    """For each stream how many bytes lie in the store, and how far it reaches."""
    query = "SELECT stream, sum(size), max(start + size) FROM output GROUP BY stream"
    store: Any = desk.engine.store
    return await store.file.read(lambda c: {row[0]: row[1:] for row in c.execute(query)})  # type: ignore[no-any-return]


def test_lines_are_seen_as_they_are_written_early_and_late(tmp_path: Path) -> None:
    ages: list[float] = []

    async def scenario(desk: Desk, processes: Crew) -> None:
        assert processes.start(serve_node, tmp_path, {}).hear() == ("ready",)
        (task,) = await desk.submit(desk.shell(LINES.format(count=15, pause=0.2)))
        early = asyncio.ensure_future(read_lines(desk, task))
        await desk.until_task(task, lambda found: found.status == Status.RUNNING)
        await asyncio.wait([early], timeout=1.0)
        late = asyncio.ensure_future(read_lines(desk, task))
        seen, seen_late = await early, await late

        assert [text for text, _ in seen] == [text for text, _ in seen_late] == [f"line {n}" for n in range(1, 16)]
        ages.extend(age for _, age in (*seen, *seen_late[-5:]))
        assert all(size == reach for size, reach in (await measure_stored(desk)).values())

    slowness = play(tmp_path, scenario)
    assert max(ages) < LATEST, slowness


def test_nothing_is_stored_while_nobody_follows(tmp_path: Path) -> None:
    async def scenario(desk: Desk, processes: Crew) -> None:
        assert processes.start(serve_node, tmp_path, {"lease": 900}).hear() == ("ready",)
        (task,) = await desk.submit(desk.shell(f"echo begun | tee {tmp_path}/begun; sleep 1; echo done"))
        await appear(tmp_path / "begun")
        assert await measure_stored(desk) == {}
        await desk.wait(task)
        assert (await desk.engine.read_output(task, "stdout")).body == b"begun\ndone\n"

    play(tmp_path, scenario)


def test_the_next_node_goes_on_without_a_gap_or_a_double(tmp_path: Path) -> None:
    ages: list[float] = []

    async def scenario(desk: Desk, processes: Crew) -> None:
        first = processes.start(serve_node, tmp_path, {})
        assert first.hear() == ("ready",)
        (task,) = await desk.submit(desk.shell(LINES.format(count=25, pause=0.1)))
        reading = asyncio.ensure_future(read_lines(desk, task))
        async with aclosing(desk.engine.follow_output(task)) as pieces:
            await anext(pieces)
        first.kill()
        assert processes.start(serve_node, tmp_path, {}).hear() == ("ready",)
        seen = await reading

        assert [text for text, _ in seen] == [f"line {n}" for n in range(1, 26)]
        ages.extend(age for _, age in seen[-3:])
        assert all(size == reach for size, reach in (await measure_stored(desk)).values())
        assert (await desk.get(task)).attempts == 1

    slowness = play(tmp_path, scenario)
    assert max(ages) < LATEST, slowness


def test_a_follower_that_never_reads_does_not_slow_the_writer(tmp_path: Path) -> None:
    async def scenario(desk: Desk, processes: Crew) -> None:
        assert processes.start(serve_node, tmp_path, {}).hear() == ("ready",)
        for _ in range(ROUNDS):
            alone, followed = [await time_writer(desk, follows) for follows in (False, True)]
            if followed < 4 * alone + 500:
                return
        raise AssertionError(f"it takes {alone} ms alone, and {followed} ms with a follower")

    play(tmp_path, scenario)


async def time_writer(desk: Desk, follows: bool) -> int:
    """The milliseconds in which a command has written all it has to write."""
    size = 40_000_000
    script = f"s=$(date +%s%N); head -c {size} /dev/zero; e=$(date +%s%N); echo $(( (e - s) / 1000000 )) >&2"
    (task,) = await desk.submit(desk.shell(script))
    if follows:
        await desk.engine.write([Note(task, Fence(0), follow=60_000)])
    assert await desk.wait(task) == [Status.SUCCEEDED]
    assert (await desk.engine.read_output(task, "stdout", 0, 1)).size == size
    return int((await desk.engine.read_output(task, "stderr")).body)


@pytest.mark.parametrize("name", ["say_and_wait", "say_and_wait_on_loop"])
def test_what_a_function_prints_is_seen_while_it_runs(name: str, tmp_path: Path) -> None:
    async def scenario(desk: Desk, _: Crew) -> None:
        gate, said = tmp_path / "gate", dict.fromkeys(("stdout", "stderr", "log"), b"")
        async with node_in(tmp_path, kinds=("function",)):
            (task,) = await desk.submit(desk.call(name, str(gate)))
            async with aclosing(desk.engine.follow_output(task)) as pieces:
                async for piece in pieces:
                    said[piece.stream] += piece.body
                    if all(said.values()):
                        gate.touch()

        assert said == {"stdout": b"out one\nout two\n", "stderr": b"err one\n", "log": b"log one\nlog two\n"}
        assert all(size == reach for size, reach in (await measure_stored(desk)).values())
        assert not any(glob(f"{tmp_path}/**/{task}.*", recursive=True))

    play(tmp_path, scenario)
