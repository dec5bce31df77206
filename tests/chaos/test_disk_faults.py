"""Every call to the disk fails once: nobody is told what is not so, the file stays sound, the same process goes on."""

import asyncio
import multiprocessing
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import apsw
import pytest

from ganger.core.errors import GangerError, StoreBroken, StoreFull
from ganger.core.ids import QueueId
from ganger.core.task import NewTask
from ganger.databases.sqlite import Limits
from ganger.databases.sqlite.scribe import Group, Scribe
from ganger.databases.sqlite.unit import Unit
from ganger.engine.store import Configure, QueueChange, Submission
from ganger.engine.stores.sqlite import SqliteStore
from ganger.testing import FakeClock, Fault, FaultVfs, SeededEntropy
from tests.chaos.harness import SMALL, find_unsound, look_into, open_store
from tests.chaos.harness_disk import BACK_WITHIN, Strike, strike, sweep
from tests.folders import folder_in_memory

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_500)]

WORKERS: Final = 2
FIRST_CALLS: Final = 2_000
FIRST_WRITES: Final = 1_000
"""Rather more than the writes among the first 2,000 calls."""


def sweep_at_once(fault: Fault, limit: int) -> list[Strike]:
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        parts = [pool.submit(sweep, fault, 1 + place, WORKERS, limit) for place in range(WORKERS)]
        return [strike for part in parts for strike in part.result()]


def check(strikes: list[Strike], expected: int, code: str) -> None:
    assert [(strike.number, strike.wrong) for strike in strikes if strike.wrong] == []
    assert sum(strike.fired for strike in strikes) == expected
    assert max(strike.slowest for strike in strikes) < BACK_WITHIN
    assert {told for strike in strikes for told in strike.errors} == {code}


def test_each_of_the_first_2000_calls_fails_once_with_an_io_error() -> None:
    check(sweep_at_once(Fault(), FIRST_CALLS), FIRST_CALLS, StoreBroken.code)


def test_each_of_the_first_1000_writes_finds_the_disk_full() -> None:
    check(sweep_at_once(Fault("xWrite", apsw.SQLITE_FULL), FIRST_WRITES), FIRST_WRITES, StoreFull.code)


class Desk:
    """A store on a failing disk, and one queue to submit to."""

    def __init__(self, store: SqliteStore, clock: FakeClock, queue: QueueId) -> None:
        self.store = store
        self.clock = clock
        self.queue = queue

    async def submit(self, key: str, size: int = 100) -> None:
        await self.store.submit(Submission((NewTask(self.queue, "payload", b"s" * size, key=key),)))


@asynccontextmanager
async def desk_on(vfs: FaultVfs, path: Path, limits: Limits = SMALL) -> AsyncIterator[Desk]:
    clock = FakeClock()
    store = await open_store(path, clock, SeededEntropy(1), vfs=vfs.name, limits=limits)
    made = await store.configure(Configure(queue=QueueChange(name="work")))
    assert made.queue is not None
    try:
        yield Desk(store, clock, made.queue.id)
    finally:
        await store.close()


def keys_in(path: Path) -> set[str]:
    with look_into(path) as connection:
        assert find_unsound(connection) == []
        return {key for (key,) in connection.execute("SELECT key FROM task")}


DEAD_DISKS: Final = {
    "no write to the log": Fault("xWrite", suffix="-wal", times=None),
    "no sync of the log": Fault("xSync", suffix="-wal", times=None),
    "no write at all": Fault("xWrite", times=None),
    "no sync at all": Fault("xSync", times=None),
    "nothing at all": Fault(times=None),
    "no space for the log": Fault("xWrite", apsw.SQLITE_FULL, suffix="-wal", times=None),
    "no space at all": Fault("xWrite", apsw.SQLITE_FULL, times=None),
}


@pytest.mark.parametrize("fault", DEAD_DISKS.values(), ids=DEAD_DISKS.keys())
def test_a_disk_that_is_dead_for_a_while_acknowledges_nothing_and_serves_when_it_is_back(fault: Fault) -> None:
    vfs = FaultVfs("dead")

    async def scenario(path: Path) -> set[str]:
        told = set()
        async with desk_on(vfs, path) as desk:
            for number in range(60):
                vfs.arm(fault) if 20 <= number < 40 else vfs.heal()
                if await is_told(desk, f"k{number}"):
                    told.add(f"k{number}")
        return told

    with folder_in_memory() as folder:
        told = asyncio.run(scenario(folder / "store.db"))
        assert told == {f"k{number}" for number in (*range(20), *range(40, 60))}
        assert told <= keys_in(folder / "store.db")
    vfs.unregister()


async def is_told(desk: Desk, key: str) -> bool:
    """Submit once. While the disk is dead that fails, in one of two ways and soon; half a second passes after it."""
    began = time.monotonic()
    try:
        await desk.submit(key)
    except (StoreBroken, StoreFull):
        assert time.monotonic() - began < BACK_WITHIN
        return False
    finally:
        desk.clock.advance(SMALL.space_check_ms)
    return True


def test_a_commit_never_writes_back_by_itself() -> None:
    """SQLite would checkpoint inside COMMIT at 1,000 pages, and its failure would look like that of the commit."""
    vfs = FaultVfs("commit-alone")

    async def scenario(path: Path) -> None:
        async with desk_on(vfs, path, replace(SMALL, checkpoint_pages=1_000_000)) as desk:
            vfs.arm(Fault("xWrite", suffix="store.db", times=None))
            for number in range(80):
                await desk.submit(f"k{number}", 100_000)
            assert path.with_name("store.db-wal").stat().st_size > 1_500 * 4_096
            assert vfs.calls == 0
            vfs.heal()

    with folder_in_memory() as folder:
        asyncio.run(scenario(folder / "store.db"))
        assert len(keys_in(folder / "store.db")) == 80
    vfs.unregister()


@pytest.mark.parametrize("error", [None, apsw.SQLITE_FULL], ids=["io", "full"])
@pytest.mark.parametrize("call", ["xWrite", "xSync"])
def test_a_checkpoint_that_fails_is_no_matter_of_the_commit_before_it(call: str, error: int | None) -> None:
    vfs = FaultVfs("checkpoint-fails")
    errors: list[GangerError] = []

    async def scenario(path: Path) -> None:
        async with desk_on(vfs, path) as desk:
            vfs.arm(Fault(call, error, at=2, suffix="store.db"))  # type: ignore[arg-type]
            for number in range(60):
                try:
                    await desk.submit(f"k{number}", 8_000)
                except StoreFull as full:
                    errors.append(full)
                    desk.clock.advance(SMALL.space_check_ms)
            assert vfs.fired == 1

    with folder_in_memory() as folder:
        asyncio.run(scenario(folder / "store.db"))
        assert len(keys_in(folder / "store.db")) == 60 - len(errors)
    # A full disk may refuse the next submit, which stored nothing; a failed one is opened anew without a word.
    assert len(errors) <= (error is not None)
    vfs.unregister()


def test_the_audit_sees_an_owner_that_takes_a_failed_commit_for_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scribe, "_commit", commit_carelessly)
    vfs = FaultVfs("careless")
    caught = [is_caught(vfs, number) for number in range(150, 400, 25)]
    vfs.unregister()
    assert sum(caught) > len(caught) // 2


def is_caught(vfs: FaultVfs, number: int) -> bool:
    try:
        return bool(strike(vfs, Fault("xWrite", suffix="-wal"), number).wrong)
    except (GangerError, ValueError):
        return True  # the script itself stumbled over what is not there


def commit_carelessly(scribe: Scribe, units: Sequence[Unit]) -> Group:
    session = scribe._begin()
    answers, left = scribe._run_all(session, units)
    session.flush()
    try:
        session.connection.execute("COMMIT")
    except apsw.IOError:
        if session.connection.in_transaction:
            session.connection.execute("ROLLBACK")
    return Group(answers, session.topics(), left)
