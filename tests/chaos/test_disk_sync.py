"""A sync fails, the kernel forgets the pages and says so only once; later the power goes: nothing told is lost.

After a failed sync the pages of the file are clean in the cache and perhaps never on the disk, and the next sync
succeeds without them. So the recording forgets what the failed sync should have written, some of it or all, unless it
is written anew; then the lights go out at any later step.
"""

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import apsw
import pytest

from ganger.core.errors import StoreBroken
from ganger.testing import FakeClock, Fault, FaultVfs, PowerLog, PowerVfs, SeededEntropy
from ganger.testing.power import Marked, Synced, Truncated, Wrote
from ganger.testing.vfs import Call
from tests.chaos.harness import find_broken, find_unsound, look_into, open_store
from tests.chaos.harness_disk import Patience
from tests.chaos.harness_script import Retired, Script, Told, promised
from tests.folders import folder_in_memory

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]

T = TypeVar("T")
ROUNDS: Final = 2
CUTS: Final = 6
_GONE: Final = Marked(None)


class ForgetfulLog(PowerLog):
    """A disk whose kernel drops pages that it could not write."""

    def forget(self, file: str, rng: random.Random) -> None:
        """What was written to the file and not synced is dropped: all of it, or half."""
        odds = rng.choice((1.0, 0.5))
        last = [step.since for step in self._steps if isinstance(step, Synced) and step.file == file]
        for place in range(last[-1] if last else 0, len(self._steps)):
            step = self._steps[place]
            if isinstance(step, Wrote | Truncated) and step.file == file and rng.random() < odds:
                self._steps[place] = _GONE

    def copy(self, folder: Path) -> "ForgetfulLog":
        """The same past, for files that were copied to another folder."""
        twin = ForgetfulLog(folder)
        twin._steps, twin._known = list(self._steps), set(self._known)
        return twin


class ForgettingVfs(FaultVfs):
    """Fails syncs, and lets the log forget what they were for."""

    def __init__(self, name: str, log: ForgetfulLog, rng: random.Random, *, beneath: str) -> None:
        super().__init__(name, base=beneath)
        self._log = log
        self._rng = rng
        self.struck_at = 0

    def strike(self, call: Call, name: str) -> Fault | None:
        fault = super().strike(call, name)
        file = self._log.name(Path(name))
        if fault is not None and file is not None:
            self.struck_at = len(self._log)
            self._log.forget(file, self._rng)
        return fault


@contextmanager
def failing(log: ForgetfulLog, fault: Fault, rng: random.Random) -> Iterator[ForgettingVfs]:
    beneath = PowerVfs("sync-beneath", log)
    vfs = ForgettingVfs("sync-failing", log, rng, beneath=beneath.name)
    vfs.arm(fault)
    yield vfs
    vfs.unregister()
    beneath.unregister()


def cut_after(start: int, log: PowerLog, rng: random.Random, folder: Path) -> None:
    """The power goes at some steps behind the start; each time the books balance."""
    for at in sorted(rng.randrange(start, len(log) + 1) for _ in range(CUTS)):
        folder.mkdir()
        audit(folder / "store.db", log.crash(at=at, rng=rng, into=folder), f"cut {at - start} steps behind {start}")
        shutil.rmtree(folder)


def audit(path: Path, marks: list[object], where: str) -> None:
    facts = promised([mark for mark in marks if isinstance(mark, Told | Retired)])
    with look_into(path) as connection:
        try:
            is_new = not connection.table_exists(None, "task")
            wrong = [] if is_new else [*find_unsound(connection), *find_broken(connection, facts)]
        except apsw.CorruptError as error:
            raise AssertionError(f"{where}: {error}") from error
        assert not wrong, where
        assert not (is_new and facts), where


def fail_sync(fault: Fault, rng: random.Random) -> bool:
    """Play with that sync failing, and cut the power afterwards; False if there were not so many syncs."""
    with folder_in_memory() as folder:
        live = folder / "live"
        live.mkdir()
        log = ForgetfulLog(live)
        with failing(log, fault, rng) as vfs:
            asyncio.run(play(live / "store.db", vfs.name, log))
        if vfs.fired:
            cut_after(vfs.struck_at, log, rng, folder / "cut")
        return vfs.fired > 0


async def play(path: Path, vfs: str, log: PowerLog, *, first: int = 0, rounds: int = ROUNDS) -> None:
    clock = FakeClock(now=1_000_000 * (1 + first), wall=1_700_000_000_000 + 1_000_000 * first)
    patience = Patience(clock)
    store = await patience.ask(lambda: open_store(path, clock, SeededEntropy(first), vfs=vfs))
    assert store is not None
    await Script(store, clock, patience.ask, log.mark, first=first).play(rounds)
    await store.close()


FAULTS: Final = {
    "once": Fault("xSync"),
    "three times": Fault("xSync", times=3),
    "for lack of space": Fault("xSync", apsw.SQLITE_FULL),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_whichever_sync_fails_a_later_power_cut_loses_nothing(fault: Fault) -> None:
    rng = random.Random(fault.times)
    number = 1
    while fail_sync(replace(fault, at=number), rng):
        number += 1
    assert number > 30


class Killed(Exception):
    """The process is gone at this point; what it would do afterwards happens elsewhere."""


async def play_until_broken(path: Path, vfs: FaultVfs, log: ForgetfulLog, image: Path) -> ForgetfulLog | None:
    """Play until a caller is told that the disk failed; the log and the files as a kill at that moment leaves them."""
    twins: list[ForgetfulLog] = []

    def probe(name: str) -> None:
        if vfs.fired and not twins and name == "scribe.replied":
            twins.append(leave_to_heir(path, log, image))

    async def ask(call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await call()
        except StoreBroken as error:
            raise Killed from error

    clock = FakeClock()
    try:
        store = await open_store(path, clock, SeededEntropy(1), vfs=vfs.name, probe=probe)
    except StoreBroken:
        return leave_to_heir(path, log, image)
    with suppress(Killed):
        await Script(store, clock, ask, log.mark).play(ROUNDS)
    await store.close()
    return twins[0] if twins else None


def leave_to_heir(path: Path, log: ForgetfulLog, image: Path) -> ForgetfulLog:
    for name in ("", "-wal", "-owner"):
        file = path.with_name(path.name + name)
        if file.exists():
            shutil.copy(file, image / file.name)
    return log.copy(image)


def die_after_failed_sync(number: int, rng: random.Random) -> bool:
    with folder_in_memory() as folder:
        live, image = folder / "live", folder / "image"
        live.mkdir()
        image.mkdir()
        log = ForgetfulLog(live)
        with failing(log, Fault("xSync", at=number), rng) as vfs:
            twin = asyncio.run(play_until_broken(live / "store.db", vfs, log, image))
        if twin is not None:
            start, beneath = len(twin), PowerVfs("sync-heir", twin)
            asyncio.run(play(image / "store.db", beneath.name, twin, first=50, rounds=1))
            beneath.unregister()
            cut_after(start, twin, rng, folder / "cut")
        return vfs.fired > 0


def test_if_the_owner_dies_of_a_failed_sync_its_heir_makes_the_log_safe_first() -> None:
    rng = random.Random(5)
    number = 1
    while die_after_failed_sync(number, rng):
        number += 1
    assert number > 30
