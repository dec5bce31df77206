"""A store on a disk that fails at one call: the script goes on, the caller asks again, and the books are audited."""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from ganger.core.errors import Conflict, GangerError, NotFound, StoreBroken, StoreFull, StoreUnavailable
from ganger.testing import FakeClock, Fault, FaultVfs, SeededEntropy
from tests.chaos.harness import find_broken, find_unsound, look_into, open_store
from tests.chaos.harness_script import News, Script, promised
from tests.folders import folder_in_memory

T = TypeVar("T")

ROUNDS: Final = 8
BACK_WITHIN: Final = 10.0
"""Seconds after a fault within which the same process serves again."""

_SPACE_IS_LOOKED_AT: Final = 600
"""Milliseconds after which an owner looks again how much space there is."""


class Strike(NamedTuple):
    """What one failed call led to."""

    number: int
    fired: int
    wrong: list[str]
    errors: list[str]
    slowest: float
    """Seconds until the call that met the fault was answered well."""


@dataclass
class Patience:
    """Asks again until it is done. Whatever is not an error of the disk is not expected, and passes."""

    clock: FakeClock
    errors: list[str] = field(default_factory=list)
    slowest: float = 0.0

    async def ask(self, call: Callable[[], Awaitable[T]]) -> T | None:
        began, unsure = time.monotonic(), False
        while True:
            try:
                answer = await call()
            except (StoreBroken, StoreUnavailable) as error:
                unsure = True
                self._note(error, began)
            except StoreFull as error:
                self._note(error, began)
            except (Conflict, NotFound):
                if not unsure:
                    raise
                return None
            else:
                self.slowest = max(self.slowest, time.monotonic() - began)
                return answer

    def _note(self, error: GangerError, began: float) -> None:
        self.errors.append(error.code)
        if time.monotonic() - began > BACK_WITHIN:
            raise AssertionError(f"not back after {BACK_WITHIN} s") from error
        self.clock.advance(_SPACE_IS_LOOKED_AT)


async def play(path: Path, vfs: FaultVfs, image: Path) -> tuple[list[News], Patience]:
    """Open, play until the fault has struck, finish that round and a little more; leave a copy as a kill would."""
    clock = FakeClock()
    patience = Patience(clock)
    store = await patience.ask(lambda: open_store(path, clock, SeededEntropy(1), vfs=vfs.name))
    assert store is not None
    news: list[News] = []
    try:
        await play_on(Script(store, clock, patience.ask, news.append), vfs)
        copy_files(path, image)
    finally:
        await store.close()
    return news, patience


async def play_on(script: Script, vfs: FaultVfs) -> None:
    await script.set_up()
    for number in range(ROUNDS):
        await script.play_round(number)
        if vfs.fired:
            break
    await script.set_up()


def copy_files(path: Path, folder: Path) -> None:
    """The database and its log as they are at this moment, the way a killed process leaves them."""
    for file in (path, path.with_name(f"{path.name}-wal")):
        shutil.copy(file, folder / file.name)


def strike(vfs: FaultVfs, fault: Fault, number: int) -> Strike:
    """Fail the call of that number in the life of a fresh file, and audit what is left."""
    with folder_in_memory() as folder:
        image = folder / "image"
        image.mkdir()
        vfs.arm(replace(fault, at=number))
        news, patience = asyncio.run(play(folder / "store.db", vfs, image))
        vfs.heal()
        wrong = [fault for path in (image / "store.db", folder / "store.db") for fault in audit(path, news)]
        return Strike(number, vfs.fired, wrong, patience.errors, patience.slowest)


def audit(path: Path, news: list[News]) -> list[str]:
    with look_into(path) as connection:
        broken = [f"{about}: {answer}" for about, answer in find_broken(connection, promised(news))]
        return broken + find_unsound(connection)


def sweep(fault: Fault, first: int, step: int, limit: int) -> list[Strike]:
    """Strike at every `step`-th call from the first one, up to the limit or to a run that the fault does not reach.

    Where the call is a write, every other pair (the log writes a frame's header and its page) writes half of its bytes.
    """
    vfs = FaultVfs(f"sweep-{first}-{fault.call}-{fault.error}")
    strikes = []
    for number in range(first, limit + 1, step):
        strikes.append(strike(vfs, replace(fault, short=bool(number // 2 % 2)), number))
        if not strikes[-1].fired:
            break
    vfs.unregister()
    return strikes
