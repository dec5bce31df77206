"""A disk that fails or fills up: nobody is told that something is stored which is not, and it goes on afterwards."""

import asyncio
import errno
import itertools
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from ganger.core.errors import StoreBroken, StoreError, StoreFull
from ganger.databases.sqlite import Limits, SharedFile
from ganger.testing.clock import FakeClock
from ganger.testing.vfs import Fault, FaultVfs
from tests.unit.databases.counter import Counted, Line, lines, open_counter, opened, read_file

pytestmark = pytest.mark.slow

KIB = 1024
LIMITS = Limits(reserve_bytes=64 * KIB, checkpoint_pages=8)
NUMBERS = itertools.count()


class TestDisk:
    """A disk whose free space is what the test says."""

    __test__ = False

    def __init__(self, free: int = 1 << 40) -> None:
        self.bytes_free = free
        self.allocated: list[int] = []

    def filesystem(self, folder: Path) -> str:
        return "ext4"

    def free(self, folder: Path) -> int:
        return self.bytes_free

    def allocate(self, path: Path, size: int) -> None:
        if self.bytes_free < size:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.allocated.append(size)


@pytest.fixture
def vfs() -> Iterator[FaultVfs]:
    found = FaultVfs(f"counter-{next(NUMBERS)}")
    yield found
    found.unregister()


async def try_to(shared: SharedFile, operation: str, n: int) -> bool:
    """Whether the unit was acknowledged."""
    try:
        await shared.call(operation, Line("ada", n))
    except StoreError:
        return False
    return True


async def write_until_it_works(shared: SharedFile) -> None:
    for _ in range(5):
        if await try_to(shared, "submit", 1_000):
            return
    pytest.fail("the handle does not go on")


@pytest.mark.parametrize("call", ["xWrite", "xSync", "xRead", "xTruncate", "xFileSize"])
@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_each_call_failed_once_gives_no_false_answer_and_the_handle_goes_on(
    tmp_path: Path, vfs: FaultVfs, call: str, suffix: str
) -> None:
    async def scenario(number: int) -> bool:
        path = tmp_path / f"{number}.db"
        vfs.heal()
        shared = await open_counter(path, vfs=vfs.name, limits=LIMITS, host=TestDisk())
        vfs.arm(Fault(call=call, at=number, suffix=suffix))  # type: ignore[arg-type]
        done = [n for n in range(10) if await try_to(shared, "submit", n)]
        fired = vfs.fired
        vfs.heal()
        await write_until_it_works(shared)
        await shared.close()
        assert {n for _, n in read_file(path)} >= {*done, 1_000}
        assert read_file(path, lambda it: it.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]
        return bool(fired)

    for number in range(1, 40):
        if not asyncio.run(scenario(number)):
            return


def test_each_call_failed_while_opening_is_refused_and_the_next_opening_works(tmp_path: Path, vfs: FaultVfs) -> None:
    refusals: list[str] = []

    async def scenario(number: int) -> bool:
        path = tmp_path / f"{number}.db"
        vfs.arm(Fault(at=number))
        try:
            shared = await open_counter(path, vfs=vfs.name, limits=LIMITS, host=TestDisk())
            await shared.close()
        except StoreError as error:
            refusals.append(error.code)
        fired = vfs.fired
        vfs.heal()
        async with opened(path, vfs=vfs.name, limits=LIMITS, host=TestDisk()) as shared:
            assert await shared.call("submit", Line("ada", 1)) == 1
        return bool(fired)

    for number in range(1, 200):
        if not asyncio.run(scenario(number)):
            assert len(refusals) > 20
            return
    pytest.fail("the opening never came through untouched")


def test_a_failed_sync_is_told_to_the_whole_group_and_checked_before_the_file_is_served_again(
    tmp_path: Path, vfs: FaultVfs
) -> None:
    probe = Counted()

    async def scenario() -> None:
        async with opened(tmp_path / "c.db", vfs=vfs.name, probe=probe) as shared:
            assert await shared.call("submit", Line("ada", 1)) == 1
            vfs.arm(Fault(call="xSync", suffix="-wal"))
            outcomes = await asyncio.gather(
                *(shared.call("submit", Line("bob", n)) for n in range(5)), return_exceptions=True
            )
            assert any(isinstance(outcome, StoreBroken) for outcome in outcomes)
            good = [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, Exception)]
            assert await shared.call("submit", Line("eve", 1)) == len(good) + 2
            assert await shared.read(lines) == [("ada", 1), *(("bob", n) for n in good), ("eve", 1)]

    asyncio.run(scenario())
    assert probe.count("file.reopened") == 1


def test_while_the_disk_is_dead_everyone_is_told_so_and_afterwards_all_is_well(tmp_path: Path, vfs: FaultVfs) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db", vfs=vfs.name, limits=LIMITS) as shared:
            await shared.call("submit", Line("ada", 1))
            vfs.arm(Fault(times=None))
            for n in range(3):
                with pytest.raises(StoreError):
                    await shared.call("submit", Line("bob", n))
            vfs.heal()
            assert await shared.call("submit", Line("eve", 1)) == 2

    asyncio.run(scenario())


def test_a_full_disk_refuses_new_work_and_records_results_from_the_reserve(tmp_path: Path, vfs: FaultVfs) -> None:
    disk, clock, probe = TestDisk(), FakeClock(), Counted()

    async def scenario() -> None:
        async with opened(
            tmp_path / "c.db", vfs=vfs.name, limits=LIMITS, host=disk, clock=clock, probe=probe
        ) as shared:
            await shared.call("submit", Line("ada", 1))
            disk.bytes_free = 0
            vfs.arm(Fault(call="xWrite", error=apsw.SQLITE_FULL, suffix="-wal"))
            outcomes = await asyncio.gather(
                shared.call("submit", Line("bob", 1)),
                shared.call("settle", Line("eve", 1)),
                shared.call("submit", Line("bob", 2)),
                return_exceptions=True,
            )
            assert [isinstance(outcome, StoreFull) for outcome in outcomes] == [True, False, True]
            assert probe.count("reserve.released") == 1
            with pytest.raises(StoreFull, match="new work is refused"):
                await shared.call("submit", Line("bob", 3))
            assert await shared.call("settle", Line("eve", 2)) == 3

            disk.bytes_free = 1 << 30
            clock.advance(500)
            assert await shared.call("submit", Line("bob", 4)) == 4

    asyncio.run(scenario())
    assert disk.allocated == [64 * KIB, 64 * KIB]
    assert [who for who, _ in read_file(tmp_path / "c.db")] == ["ada", "eve", "eve", "bob"]


def test_when_even_the_reserve_is_used_up_the_large_units_fail_and_the_small_ones_do_not(
    tmp_path: Path, vfs: FaultVfs
) -> None:
    disk = TestDisk()

    async def scenario() -> None:
        async with opened(tmp_path / "c.db", vfs=vfs.name, limits=LIMITS, host=disk) as shared:
            disk.bytes_free = 0
            # The group fails, then the group on the reserve; then each by itself, of which one fails.
            vfs.arm(Fault(call="xWrite", error=apsw.SQLITE_FULL, suffix="-wal", times=3))
            outcomes = await asyncio.gather(
                *(shared.call("settle", Line("eve", n)) for n in range(4)), return_exceptions=True
            )
            vfs.heal()
            assert all(isinstance(outcome, StoreFull | int) for outcome in outcomes)
            stored = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, int)]
            assert [n for _, n in await shared.read(lines)] == stored
            assert len(stored) >= 2

    asyncio.run(scenario())


def test_new_work_is_refused_before_the_disk_is_quite_full(tmp_path: Path) -> None:
    disk, clock = TestDisk(), FakeClock()

    async def scenario() -> None:
        async with opened(tmp_path / "c.db", limits=LIMITS, host=disk, clock=clock) as shared:
            disk.bytes_free = 63 * KIB
            assert await shared.call("submit", Line("ada", 1)) == 1
            clock.advance(500)
            with pytest.raises(StoreFull):
                await shared.call("submit", Line("ada", 2))
            assert await shared.call("settle", Line("ada", 3)) == 2
            disk.bytes_free = 70 * KIB
            clock.advance(500)
            with pytest.raises(StoreFull):
                await shared.call("submit", Line("ada", 4))
            disk.bytes_free = 80 * KIB
            clock.advance(500)
            assert await shared.call("submit", Line("ada", 5)) == 3

    asyncio.run(scenario())


def test_a_reserve_left_by_an_earlier_owner_is_given_up_to_open_a_file_on_a_full_disk(
    tmp_path: Path, vfs: FaultVfs
) -> None:
    probe = Counted()

    async def scenario() -> None:
        async with opened(tmp_path / "c.db", limits=LIMITS) as shared:
            await shared.call("submit", Line("ada", 1))
        assert (tmp_path / "c.db-reserve").stat().st_size == 64 * KIB
        vfs.arm(Fault(call="xWrite", error=apsw.SQLITE_FULL, suffix="-wal"))
        async with opened(tmp_path / "c.db", vfs=vfs.name, limits=LIMITS, host=TestDisk(free=0), probe=probe) as shared:
            assert await shared.call("settle", Line("eve", 1)) == 2
            with pytest.raises(StoreFull):
                await shared.call("submit", Line("bob", 1))

    asyncio.run(scenario())
    assert probe.count("reserve.released") == 1


def test_an_heir_checks_the_file_of_an_owner_whose_disk_had_failed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path / "c.db") as shared:
            await shared.call("submit", Line("ada", 1))
        plate = tmp_path / "c.db-owner"
        plate.write_text(plate.read_text().replace('"sound":true', '"sound":false'))
        async with opened(tmp_path / "c.db") as shared:
            assert await shared.call("count", None) == 1
            assert '"sound":true' in plate.read_text()

    asyncio.run(scenario())
