"""Cgroups where they may be had: a command that goes on has one of its own, and those that end at once need none."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from ganger.core.outcome import Killed
from ganger.node.isolation import Isolation
from ganger.wire.specs import Limits
from tests.unit.node.guarded import assign, begin, command, executor, has_cgroups, heard, run, shell, survivors, until

pytestmark = pytest.mark.skipif(not has_cgroups(), reason="no cgroup (v2) may be made on this machine")


def carry_out(work: Coroutine[Any, Any, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(60):
            await work

    asyncio.run(in_time())


def cgroup_of(pid: int | str) -> str:
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next(line for line in lines if line.startswith("0::"))


def cells_in(folder: Path) -> list[str]:
    return [cell.name for cell in folder.iterdir() if cell.is_dir()]


def test_a_command_that_goes_on_has_a_cgroup_of_its_own_and_so_have_its_children(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            script = "until [ -e go ]; do sleep 0.01; done; cat /proc/self/cgroup; echo ready; sleep 100"
            started = [await begin(made, assign(task, shell(script))) for task in (1, 2)]
            (tmp_path / "go").touch()
            told = [await heard(made, one, b"ready") for one in started]
            homes = [cgroup_of(one.pid) for one in started]
            assert all("/ganger-" in home for home in homes)
            assert homes[0] != homes[1]
            assert all(home.encode() in said for home, said in zip(homes, told, strict=True))

    carry_out(check())


def test_children_from_before_the_cgroup_end_with_their_command(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            script = "sleep 1000 & setsid -f sleep 1000; echo ready; wait"
            started = await begin(made, assign(1, shell(script)))
            await heard(made, started, b"ready")
            await started.stop("a test")
            assert (await started.ended()).outcome == Killed("a test")
            assert survivors(tmp_path) == []

    carry_out(check())


def test_a_command_with_bounded_memory_is_born_in_its_cgroup(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            ended = await run(made, assign(1, command("cat", "/proc/self/cgroup", limits=Limits(memory=1 << 28))))
            assert b"/ganger-" in ended.data["stdout"]

    carry_out(check())


def test_every_command_is_born_in_its_cgroup_where_that_is_insisted_on(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path, isolation=Isolation.CGROUP) as made:
            ended = await run(made, assign(1, command("cat", "/proc/self/cgroup")))
            assert b"/ganger-" in ended.data["stdout"]

    carry_out(check())


def test_cgroups_are_used_again_and_none_is_left_when_the_guardian_has_ended(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            for task in range(1, 6):
                started = await begin(made, assign(task, command("sleep", "1000")))
                await started.stop("a test")
                await started.ended()
                started.forget()
            folder = Path((tmp_path / "run" / "cgroup").read_text())
            assert cells_in(folder) == ["2"]
        await until(lambda: not folder.exists())

    carry_out(check())
