"""A disk that is really full, and a process that is really out of descriptors."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ganger.core.errors import StoreFull
from ganger.databases.sqlite import Limits, SharedFile
from tests.unit.databases.actor import troupe
from tests.unit.databases.counter import Line, lines, opened, read_file, until

KIB = 1024
LIMITS = Limits(reserve_bytes=512 * KIB, checkpoint_pages=100, space_check_ms=20)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of four megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("LOUD SKIP: a full disk needs the right to mount one; run as root to try it")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def fill(shared: SharedFile) -> int:
    """Submit until the disk is full; how many were taken."""
    for n in range(1_000):
        try:
            await shared.call("submit", Line("work", n, 20 * KIB))
        except StoreFull:
            return n
    pytest.fail("four megabytes took twenty")


def test_a_full_disk_refuses_work_records_results_and_serves_again_when_there_is_space(small_disk: Path) -> None:
    path = small_disk / "counter.db"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1024 * KIB))

    async def scenario() -> int:
        async with opened(path, limits=LIMITS) as shared:
            taken = await fill(shared)
            for n in range(50):
                await shared.call("settle", Line("result", n))
            with pytest.raises(StoreFull):
                await shared.call("submit", Line("work", 1_000, 20 * KIB))
            ballast.unlink()
            await until(lambda: _serves(shared))
            assert len(await shared.read(lines)) == taken + 51
            return taken

    taken = asyncio.run(scenario())
    assert taken > 20
    assert read_file(path, lambda it: it.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]


def _serves(shared: SharedFile) -> bool:
    try:
        shared.call_blocking("submit", Line("work", 2_000), 5)
    except StoreFull:
        return False
    return True


def test_a_disk_filled_by_somebody_else_to_the_last_byte_loses_nothing_that_was_acknowledged(small_disk: Path) -> None:
    path = small_disk / "counter.db"

    async def scenario() -> list[int]:
        async with opened(path, limits=LIMITS) as shared:
            await shared.call("submit", Line("work", 0))
            _fill_to_the_last_byte(small_disk / "ballast")
            done = []
            for n in range(1, 400):
                try:
                    await shared.call("settle", Line("result", n, 4 * KIB))
                except StoreFull:
                    continue
                done.append(n)
            (small_disk / "ballast").unlink()
            await until(lambda: _serves(shared))
            return done

    done = asyncio.run(scenario())
    assert len(done) >= 50
    assert [n for who, n in read_file(path) if who == "result"] == done


def _fill_to_the_last_byte(path: Path) -> None:
    with path.open("wb", buffering=0) as ballast:
        try:
            while ballast.write(bytes(4 * KIB)):
                pass
        except OSError:
            return


def test_an_owner_out_of_descriptors_does_not_spin_and_lets_newcomers_in_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with troupe() as company:
            owner = await company.hire(tmp_path / "counter.db")
            newcomer = await company.hire()
            await owner.ask("limit_descriptors", more=0)
            await newcomer.tell("open", path=str(tmp_path / "counter.db"))
            watched = psutil.Process(owner.pid)
            before = sum(watched.cpu_times()[:2])
            assert await owner.ask("wait", seconds=1) == {}
            assert sum(watched.cpu_times()[:2]) - before < 0.2
            assert await owner.ask("call", operation="submit", request=["ada", 1]) == {"value": 1}
            await owner.ask("limit_descriptors", more=100)
            assert await newcomer.hear() == {"opened": True}
            assert await newcomer.ask("call", operation="submit", request=["ada", 2]) == {"value": 2}

    asyncio.run(scenario())
