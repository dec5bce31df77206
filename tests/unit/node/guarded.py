"""Real commands under a real guardian, for tests: an executor in a folder, tasks for it, and a look at who is left."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from signal import SIGKILL
from typing import Any

import psutil
import pytest

from ganger.core.clock import Moment
from ganger.core.ids import Fence, NodeId, QueueId, TaskId
from ganger.core.task import Claimed
from ganger.node.executor import Assignment, Ended
from ganger.node.executors.command import CommandExecutor, Home
from ganger.node.guardian.folder import RunFolder
from ganger.node.guardian.launch import Post
from ganger.node.guardian.mark import Mark
from ganger.node.guardian.remote import Guardian
from ganger.node.guardian.run import GuardedRun
from ganger.node.guardian.tree import find_marked
from ganger.node.isolation import Isolation, find_cgroups, is_populated, kill_cgroups, remove_cgroups
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from ganger.wire.specs import CommandSpec, ShellSpec, encode

CLOCK = SystemClock()
PATIENCE = 60.0
PATH = "/usr/local/bin:/usr/bin:/bin"


class Diary:
    """Telemetry that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def event(self, name: str, **fields: object) -> None:
        self.events.append((name, fields))

    def names(self) -> list[str]:
        return [name for name, _ in self.events]


def has_cgroups() -> bool:
    cgroups = find_cgroups(f"ganger-test-{os.getpid()}")
    if cgroups is not None:
        cgroups.close()
    return cgroups is not None


WALLS = [
    pytest.param(Isolation.MARK, id="mark"),
    pytest.param(
        Isolation.CGROUP,
        id="cgroup",
        marks=pytest.mark.skipif(not has_cgroups(), reason="no cgroup (v2) may be made on this machine"),
    ),
]


def shell(script: str, **more: Any) -> ShellSpec:
    return ShellSpec(script=script, **more)


def command(*argv: str, **more: Any) -> CommandSpec:
    return CommandSpec(argv=list(argv), **more)


def assign(
    task: int,
    spec: CommandSpec | ShellSpec | bytes,
    *,
    fence: int = 1,
    timeout: int | None = None,
    trust: int = 60_000,
    kind: str | None = None,
) -> Assignment:
    kind = kind or ("shell" if isinstance(spec, ShellSpec) else "command")
    claimed = Claimed(
        TaskId(task), QueueId(1), kind, None, Fence(fence), NodeId(1), None, 0, 0, 0, "", timeout, status=0
    )  # fmt: skip
    body = spec if isinstance(spec, bytes) else encode(spec)
    told = {"GANGER_TASK": str(task), "GANGER_FENCE": str(fence)}
    return Assignment(claimed, body, told, Moment(CLOCK.now() + trust))


def make_executor(
    folder: Path,
    *,
    isolation: Isolation = Isolation.AUTO,
    epoch: int = 1,
    diary: Diary | None = None,
    beat: float = 5.0,
    slots: int = 0,
    **post: Any,
) -> CommandExecutor:
    telemetry = diary or Diary()
    post_there = Post(folder / "run", isolation=isolation, **post)
    guardian = Guardian(post_there, epoch, SystemEntropy(), telemetry, beat=beat)
    return CommandExecutor(guardian, Home({"PATH": PATH, "HOME": str(folder), "LANG": "C.UTF-8"}, folder), slots)


@asynccontextmanager
async def executor(folder: Path, **more: Any) -> AsyncIterator[CommandExecutor]:
    """An executor that leaves nothing behind, whatever the test does."""
    made = make_executor(folder, **more)
    try:
        yield made
    finally:
        try:
            async with asyncio.timeout(PATIENCE):
                await made.close(leave_running=False)
        finally:
            sweep(folder)


async def run(made: CommandExecutor, assignment: Assignment) -> Ended:
    """One attempt from its start to its end, acknowledged."""
    async with asyncio.timeout(PATIENCE):
        started = await made.start(assignment)
        ended = await started.ended()
    started.forget()
    return ended


async def begin(made: CommandExecutor, assignment: Assignment) -> GuardedRun:
    started = await made.start(assignment)
    assert isinstance(started, GuardedRun)
    await started.begun()
    return started


async def heard(made: CommandExecutor, started: GuardedRun, text: bytes, stream: str = "stdout") -> bytes:
    """Wait until the program has said this."""
    from ganger.node.spool import SpoolKey

    reader = made.spool.read(SpoolKey(started.task, started.fence, stream), started.signal(stream))
    said = b""
    async with asyncio.timeout(PATIENCE):
        async for piece in reader.follow():
            said += piece.body
            if text in said:
                return said
    raise AssertionError(f"it never said {text!r}, but {said!r}")


async def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what another process does sets no event here
            await asyncio.sleep(0.005)


def mark_of(folder: Path) -> Mark:
    return RunFolder(str(folder / "run")).read_mark()


def survivors(folder: Path) -> list[int]:
    """Living processes of any attempt of this folder's guardian."""
    return find_marked(mark_of(folder))


def guardian_of(folder: Path) -> psutil.Process:
    return psutil.Process(int((folder / "run" / "guardian.pid").read_text()))


def is_alive(pid: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def zombies(guardian: psutil.Process) -> list[int]:
    return [child.pid for child in guardian.children() if not is_alive(child.pid) and child.is_running()]


def sweep(folder: Path) -> None:
    """End what a failing test may have left: its guardian and everything that bears its mark."""
    with suppress(FileNotFoundError, psutil.NoSuchProcess, ValueError):
        found = guardian_of(folder)
        if "ganger.node.guardian" in found.cmdline():
            found.kill()
    with suppress(FileNotFoundError):
        kill_all(survivors(folder))
        cgroup = (folder / "run" / "cgroup").read_text()
        if cgroup:
            kill_cgroups(cgroup)
            while is_populated(cgroup):
                time.sleep(0.001)
            remove_cgroups(cgroup)


def kill_all(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, SIGKILL)
