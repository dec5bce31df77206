"""Guardians end, are stopped and are killed; the node notices, and nothing runs that nobody keeps."""

import asyncio
import resource
import stat
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from ganger.core.errors import StoreUnavailable
from ganger.core.outcome import Crashed, Release, Succeed
from ganger.node.executor import Ended
from ganger.node.isolation import Isolation
from tests.unit.node.guarded import (
    PATH,
    WALLS,
    Diary,
    assign,
    begin,
    command,
    executor,
    guardian_of,
    heard,
    is_alive,
    make_executor,
    run,
    shell,
    survivors,
    sweep,
    until,
)


def test_a_guardian_with_nothing_to_keep_ends(tmp_path: Path) -> None:
    async def check() -> None:
        made = make_executor(tmp_path, linger=200)
        await run(made, assign(1, command("true")))
        guardian = guardian_of(tmp_path)
        await made.close(leave_running=True)
        await until(lambda: not guardian.is_running() or guardian.status() == psutil.STATUS_ZOMBIE)
        assert not (tmp_path / "run" / "journal").exists()
        assert not (tmp_path / "run" / "guardian.sock").exists()

    asyncio.run(check())


def test_nobody_else_may_speak_to_a_guardian_or_look_into_its_folder(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            await run(made, assign(1, shell("echo hush")))
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()}
            assert modes["guardian.sock"] == 0o600
            assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
            assert not any(mode & 0o077 for mode in modes.values()), modes

    asyncio.run(check())


def test_a_guardian_whose_node_vanished_lingers_and_ends(tmp_path: Path) -> None:
    async def check() -> None:
        made = make_executor(tmp_path, linger=300)
        await run(made, assign(1, command("true")))
        guardian = guardian_of(tmp_path)
        link = made._guardian._link
        assert link is not None
        # What was acknowledged goes out with the next turn of the loop.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        link.close()
        await until(lambda: not guardian.is_running() or guardian.status() == psutil.STATUS_ZOMBIE)
        assert (await run(made, assign(2, command("true")))).outcome == Succeed(b"0")
        assert guardian_of(tmp_path).pid != guardian.pid
        await made.close(leave_running=False)

    asyncio.run(check())


@pytest.mark.parametrize("walls", WALLS)
def test_a_killed_guardian_takes_its_commands_along_before_a_slot_is_free(tmp_path: Path, walls: Isolation) -> None:
    async def check() -> None:
        diary = Diary()
        async with executor(tmp_path, isolation=walls, diary=diary) as made:
            deaf = shell("trap '' TERM; (trap '' TERM; setsid -f sleep 1000); echo up; while :; do sleep 1; done")
            runs = [await begin(made, assign(task, deaf)) for task in range(1, 4)]
            for it in runs:
                await heard(made, it, b"up")
            quick = await begin(made, assign(9, shell("echo kept; exit 4")))
            kept = await quick.ended()
            guardian_of(tmp_path).kill()
            for it in runs:
                ended = await it.ended()
                assert ended.outcome == Crashed("its guardian was killed, and it was ended")
                assert ended.data["stdout"] == b"up\n"
                assert survivors(tmp_path) == []
            assert await quick.ended() == kept
            assert (await run(made, assign(10, command("true")))).outcome == Succeed(b"0")
            assert "guardian_lost" in diary.names()

    asyncio.run(check())


def test_a_stopped_guardian_is_replaced_and_its_commands_are_ended(tmp_path: Path) -> None:
    async def check() -> None:
        diary = Diary()
        async with executor(tmp_path, diary=diary, beat=0.1) as made:
            started = await begin(made, assign(1, command("sleep", "1000")))
            stopped = guardian_of(tmp_path)
            stopped.suspend()
            assert isinstance((await started.ended()).outcome, Crashed)
            assert survivors(tmp_path) == []
            assert "guardian_silent" in diary.names()
            assert guardian_of(tmp_path).pid != stopped.pid
            assert (await run(made, assign(2, command("true")))).outcome == Succeed(b"0")

    asyncio.run(check())


def test_a_node_that_was_stopped_does_not_blame_its_guardian(tmp_path: Path) -> None:
    async def check() -> None:
        diary = Diary()
        async with executor(tmp_path, diary=diary, beat=0.05) as made:
            started = await begin(made, assign(1, command("sleep", "1000")))
            guardian = guardian_of(tmp_path).pid
            await asyncio.sleep(0)
            # Nothing of the loop runs meanwhile, as if the whole process were stopped.
            subprocess.run(["sleep", "0.6"], check=True)  # noqa: ASYNC221 - that is the point
            await asyncio.wait([asyncio.ensure_future(started.ended())], timeout=0.4)
            assert "guardian_silent" not in diary.names()
            assert guardian_of(tmp_path).pid == guardian
            assert is_alive(started.pid)

    asyncio.run(check())


def test_a_guardian_that_is_told_to_end_hands_its_tasks_back(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            started = await begin(made, assign(1, command("sleep", "1000")))
            guardian_of(tmp_path).terminate()
            assert (await started.ended()).outcome == Release()

    asyncio.run(check())


@pytest.mark.parametrize("_", range(20))
def test_two_nodes_that_start_at_once_share_one_guardian(tmp_path: Path, _: int) -> None:
    """Each may be sent away at any moment, also between the guardian's welcome and its own hearing of that."""

    async def check() -> None:
        first, second = make_executor(tmp_path, epoch=1), make_executor(tmp_path, epoch=1)
        results = await asyncio.gather(
            *(run(made, assign(task, command("true"))) for task, made in enumerate((first, second), 1)),
            return_exceptions=True,
        )
        # One stays. If it had to connect again, the order on its way was lost, and the task goes back.
        assert any(isinstance(result, Ended | StoreUnavailable) for result in results), results
        assert len([it for it in psutil.process_iter(["cmdline"]) if _guards(it, tmp_path)]) == 1
        await second.close(leave_running=False)
        await first.close(leave_running=False)
        sweep(tmp_path)

    asyncio.run(check())


def _guards(process: psutil.Process, folder: Path) -> bool:
    line = process.info["cmdline"] or []
    return "ganger.node.guardian" in line and str(folder / "run") in line


def test_a_run_folder_may_have_a_long_path(tmp_path: Path) -> None:
    async def check() -> None:
        deep = tmp_path / ("long-" * 20) / ("path-" * 20)
        deep.mkdir(parents=True)
        async with executor(deep) as made:
            assert (await run(made, assign(1, command("true")))).outcome == Succeed(b"0")
            folder = deep / "run"
            assert folder.stat().st_mode & 0o777 == 0o700
            assert {path.name: path.stat().st_mode & 0o077 for path in folder.iterdir()} == dict.fromkeys(
                (path.name for path in folder.iterdir()), 0
            )

    asyncio.run(check())


def test_an_idle_guardian_costs_nothing(tmp_path: Path) -> None:
    async def check() -> None:
        async with executor(tmp_path) as made:
            started = await begin(made, assign(1, command("sleep", "1000", env={"PATH": PATH})))
            guardian = guardian_of(tmp_path)
            before, began = guardian.cpu_times(), time.monotonic()
            await until(lambda: time.monotonic() - began > 1)
            after = guardian.cpu_times()
            assert after.user + after.system - before.user - before.system <= 0.02
            await started.stop("enough")

    asyncio.run(check())


def test_a_guardian_whose_journal_found_no_room_goes_on_when_there_is_some(tmp_path: Path) -> None:
    async def check() -> None:
        diary = Diary()
        async with executor(tmp_path, diary=diary) as made:
            assert (await run(made, assign(1, shell("true")))).outcome == Succeed(b"0")
            guardian, full = guardian_of(tmp_path).pid, (0, resource.RLIM_INFINITY)
            plain = resource.prlimit(guardian, resource.RLIMIT_FSIZE, full)
            # What could not be noted is told all the same; but nothing is begun after it.
            await run(made, assign(2, shell("true")))
            assert (await run(made, assign(3, shell("true")))).outcome == Release(1_000)
            assert "guardian_fault" in diary.names()
            resource.prlimit(guardian, resource.RLIMIT_FSIZE, plain)
            assert (await run(made, assign(4, shell("true")))).outcome == Succeed(b"0")
            assert guardian_of(tmp_path).pid == guardian

    asyncio.run(check())
