"""Whatever a command does to hide its children, a kill leaves none of them, and nothing else is touched."""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from ganger.core.outcome import Fail, Killed, Succeed
from ganger.node.executors.command import CommandExecutor
from ganger.node.guardian.run import GuardedRun
from ganger.node.isolation import Isolation
from ganger.wire.specs import CommandSpec, ShellSpec
from tests.unit.node.guarded import (
    WALLS,
    assign,
    begin,
    command,
    executor,
    guardian_of,
    heard,
    run,
    shell,
    survivors,
    until,
    zombies,
)
from tests.yardstick import measuring

DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(1, b"ready\\n")
        time.sleep(1000)
    os._exit(0)
time.sleep(1000)
"""

HIDDEN = """
import os, resource, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        resource.setrlimit(resource.RLIMIT_RTTIME, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.execve("/bin/sh", ["sh", "-c", "echo ready; trap '' TERM; while :; do sleep 1; done"], {"PATH": os.defpath})
    os._exit(0)
time.sleep(float(sys.argv[1]))
"""

NASTY: dict[str, CommandSpec | ShellSpec] = {
    "simple": command("sh", "-c", "echo ready; exec sleep 1000"),
    "background": shell("sleep 1000 & sleep 1000 & echo ready; wait"),
    "deaf": shell("trap '' TERM; echo ready; while :; do sleep 1; done", grace=50),
    "stopped": shell("sleep 1000 & kill -STOP $!; echo ready; kill -STOP $$", grace=50),
    "new session": shell("setsid sleep 1000 & setsid -f sleep 1000; echo ready; wait"),
    "daemon": command(sys.executable, "-c", DAEMON, grace=50),
    "clean environment": shell("env -i setsid -f sleep 1000; env -i sleep 1000 & echo ready; wait"),
    "deep": shell("f() { if [ $1 -gt 0 ]; then (f $(($1 - 1)) & sleep 1000); else echo ready; fi; }; f 12", grace=200),
}


LONGEST_GRACE = 0.2
"""Seconds, among those that need it: the others obey at once."""


async def kill(made: CommandExecutor, started: GuardedRun) -> float:
    """Seconds from the wish to the proof."""
    await heard(made, started, b"ready")
    began = time.monotonic()
    await started.stop("a test")
    async with asyncio.timeout(60):
        assert (await started.ended()).outcome == Killed("a test")
    started.forget()
    return time.monotonic() - began


def family(folder: Path) -> set[int]:
    """Everybody below the guardian, marked or not, dead or alive."""
    return {child.pid for child in guardian_of(folder).children(recursive=True)}


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.parametrize("way", NASTY)
def test_a_kill_leaves_nobody(tmp_path: Path, walls: Isolation, way: str) -> None:
    async def check() -> None:
        async with executor(tmp_path, isolation=walls) as made:
            bystander = await begin(made, assign(99, shell("setsid -f sleep 1000; sleep 1000 & echo up; wait")))
            await heard(made, bystander, b"up")
            others = family(tmp_path)
            await kill(made, await begin(made, assign(1, NASTY[way])))
            assert survivors(tmp_path) == sorted(others)
            await until(lambda: family(tmp_path) == others)

    asyncio.run(check())


@pytest.mark.parametrize("walls", WALLS)
def test_whoever_took_off_every_mark_is_killed_when_nobody_can_claim_it(tmp_path: Path, walls: Isolation) -> None:
    async def check() -> None:
        async with executor(tmp_path, isolation=walls) as made:
            ended = await run(made, assign(1, command(sys.executable, "-c", HIDDEN, "0.3", grace=50)))
            assert ended.outcome == Succeed(b"0")
            await until(lambda: not guardian_of(tmp_path).children(recursive=True))

    asyncio.run(check())


@pytest.mark.parametrize("walls", WALLS)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else, whose processes can be counted")
def test_a_fork_bomb_is_killed_and_others_do_not_notice(tmp_path: Path, walls: Isolation) -> None:
    # Its own user has 150 processes at most: so it stays a bomb of that size, whatever happens here.
    bomb = "ulimit -u 150; echo ready; b() { b | b & }; b; while :; do b; sleep 0.01; done 2>/dev/null"
    spec = command(
        "setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "bash", "-c", f"{bomb} 2>/dev/null", grace=100
    )

    async def check() -> None:
        async with executor(tmp_path, isolation=walls) as made:
            started = await begin(made, assign(1, spec, timeout=20_000))
            await heard(made, started, b"ready")
            await until(lambda: len(survivors(tmp_path)) > 60)
            assert (await run(made, assign(2, command("true")))).outcome == Succeed(b"0")
            assert await kill(made, started) < 5
            assert survivors(tmp_path) == []
            await until(lambda: not zombies(guardian_of(tmp_path)))

    asyncio.run(check())


def test_a_pipe_that_a_grandchild_holds_does_not_hold_the_end(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            began = time.monotonic()
            ended = await run(made, assign(1, shell("(trap '' TERM; sleep 1000) & echo said; exit 7", grace=300)))
            assert ended.outcome == Fail(reason="it exited with code 7")
            assert ended.data["stdout"] == b"said\n"
            assert time.monotonic() - began < 10

    asyncio.run(check())


def test_a_kill_that_races_the_end_has_one_outcome(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            for task in range(1, 61):
                started = await begin(made, assign(task, command("true")))
                await started.stop("too late, or just in time")
                outcome = (await started.ended()).outcome
                assert outcome in (Succeed(b"0"), Killed("too late, or just in time"))
                started.forget()

    asyncio.run(check())


async def kill_many(made: CommandExecutor, tasks: Sequence[int], ways: Sequence[str]) -> list[float]:
    runs = [await begin(made, assign(task, NASTY[ways[task % len(ways)]])) for task in tasks]
    return list(await asyncio.gather(*(kill(made, started) for started in runs)))


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("walls", WALLS)
def test_a_thousand_kills_leave_no_process_no_zombie_and_no_descriptor(tmp_path: Path, walls: Isolation) -> None:
    kills, together = int(os.environ.get("GANGER_TEST_KILLS", "1000")), 20
    ways = [way for way in NASTY if way != "daemon"]

    async def check() -> list[float]:
        async with executor(tmp_path, isolation=walls) as made:
            await kill_many(made, [1], ways)
            descriptors = guardian_of(tmp_path).num_fds()
            took: list[float] = []
            for first in range(2, kills + 2, together):
                took += await kill_many(made, range(first, first + together), ways)
            assert survivors(tmp_path) == []
            await until(lambda: not guardian_of(tmp_path).children())
            # What stays is the cells kept for the next attempts, two descriptors each, and the thread's.
            assert guardian_of(tmp_path).num_fds() <= descriptors + 2 * together + 2
        return sorted(took)

    with measuring(tmp_path) as slowness:
        took = asyncio.run(check())
    late = took[len(took) * 99 // 100]
    print(f"{len(took)} kills, p50 {took[len(took) // 2]:.3f} s, p99 {late:.3f} s; {slowness}")
    assert late <= LONGEST_GRACE + 1, slowness
