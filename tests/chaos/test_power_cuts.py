"""The lights go out 2,000 times: what was acknowledged is there, what is there was asked for, and the file goes on."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import apsw
import pytest

from ganger.core.ids import QueueId
from ganger.core.task import NewTask
from ganger.engine.store import Configure, QueueChange, Submission
from ganger.testing import FakeClock, PowerLog, PowerVfs, SeededEntropy
from tests.chaos.harness import digest, find_broken, find_unsound, look_into, open_store
from tests.chaos.harness_script import Retired, Script, T, Told, promised
from tests.folders import folder_in_memory

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_500)]

CUTS: Final = 2_000
COMMITTED: Final = frozenset({"owner.migrated", "owner.prepared", "scribe.committed_before_reply"})
"""The points at which a COMMIT has just returned: from here on it must survive."""


class Committed(NamedTuple):
    """So many transactions have been committed."""

    transactions: int


@dataclass
class Recorder:
    """Notes in the log each commit as it returns, and what the file held then; counts the units of the groups."""

    path: Path
    log: PowerLog
    states: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    checkpoints: int = 0
    _units: int = 0

    def __post_init__(self) -> None:
        with look_into(Path(":memory:")) as nothing:
            self.states.append(digest(nothing))

    def probe(self, name: str) -> None:
        if name == "scribe.begun":
            self._units = 0
        elif name == "scribe.unit_run":
            self._units += 1
        elif name == "checkpoint.after":
            self.checkpoints += 1
        elif name in COMMITTED:
            self._commit(self._units if name.startswith("scribe") else 0)

    def _commit(self, units: int) -> None:
        self.log.mark(Committed(len(self.states)))
        self.groups.append(units)
        with look_into(self.path) as connection:
            self.states.append(digest(connection))


async def directly(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


async def live(path: Path, recorder: Recorder, vfs: str) -> None:
    """Three lives of the file: each opens it, plays some rounds, and closes it in order."""
    clock = FakeClock()
    for life in range(3):
        store = await open_store(path, clock, SeededEntropy(life), vfs=vfs, probe=recorder.probe)
        await Script(store, clock, directly, recorder.log.mark, first=10 * life).play(5)
        await store.close()


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return record(tmp_path_factory.mktemp("power") / "live", "power-store")


def record(folder: Path, name: str) -> Recorder:
    folder.mkdir()
    log = PowerLog(folder)
    vfs = PowerVfs(name, log)
    made = Recorder(folder / "store.db", log)
    asyncio.run(live(made.path, made, vfs.name))
    vfs.unregister()
    return made


def test_the_run_that_is_cut_has_groups_checkpoints_and_every_kind_of_step(recorder: Recorder) -> None:
    assert max(recorder.groups) > 1
    assert sum(units > 1 for units in recorder.groups) > 20
    assert recorder.checkpoints > 10
    assert len(recorder.states) > 150
    assert len(recorder.log) > 2_000


def test_2000_power_cuts_lose_nothing_invent_nothing_and_damage_nothing(recorder: Recorder) -> None:
    rng = random.Random(20_000)
    recovered = 0
    for at in sorted(rng.randrange(len(recorder.log) + 1) for _ in range(CUTS)):
        with cut(recorder.log, at, rng) as (path, marks):
            recovered += audit(recorder, path, marks, f"cut at {at} of {len(recorder.log)}")
            asyncio.run(go_on(path))
    # Commits that nobody had been told of are there now and then: the dice do throw both ways.
    assert 0 < recovered < CUTS


@contextmanager
def cut(log: PowerLog, at: int, rng: random.Random) -> Iterator[tuple[Path, list[object]]]:
    with folder_in_memory() as folder:
        marks = log.crash(at=at, rng=rng, into=folder)
        yield folder / "store.db", marks


def audit(recorder: Recorder, path: Path, marks: list[object], where: str) -> bool:
    """Whether a commit is there that had not returned yet; anything else that differs from what was told is a fault."""
    committed = max((mark.transactions for mark in marks if isinstance(mark, Committed)), default=0)
    facts = promised([mark for mark in marks if isinstance(mark, Told | Retired)])
    with look_into(path) as connection:
        found = digest(connection)
        assert found in recorder.states[committed : committed + 2], f"{where}: {committed} commits, and another state"
        if found == recorder.states[0]:
            return False
        assert find_broken(connection, facts) == [], where
        assert find_unsound(connection) == [], where
    return found != recorder.states[committed]


async def go_on(path: Path) -> None:
    """The next boot opens the file without a word and works with it."""
    clock = FakeClock(now=5, wall=1_800_000_000_000)
    clock.reboot()
    store = await open_store(path, clock, SeededEntropy(9))
    made = await store.configure(Configure(queue=QueueChange(name="after")))
    assert made.queue is not None
    done = await store.submit(Submission((NewTask(QueueId(made.queue.id), "payload"),)))
    await store.close()
    with look_into(path) as connection:
        assert find_unsound(connection) == []
        assert connection.execute("SELECT count(*) FROM task WHERE id = ?", done.ids).fetchone() == (1,)


def test_the_audit_sees_what_a_weaker_setting_of_the_disk_loses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same store with synchronous=NORMAL: commits return before they are on the disk."""
    monkeypatch.setattr("ganger.databases.sqlite.file._configure", configure_weakly)
    weak = record(tmp_path / "live", "power-weak")
    rng = random.Random(7)
    lost = 0
    for at in sorted(rng.randrange(len(weak.log) + 1) for _ in range(200)):
        with cut(weak.log, at, rng) as (path, marks):
            lost += is_refused(weak, path, marks)
    assert lost > 20


def configure_weakly(connection: apsw.Connection) -> None:
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "normal")


def is_refused(recorder: Recorder, path: Path, marks: list[object]) -> bool:
    try:
        audit(recorder, path, marks, "weak")
    except AssertionError:
        return True
    return False
