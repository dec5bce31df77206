"""The power log finds what a weak setting of SQLite loses, and nothing where the setting is sound."""

import random
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

from ganger.testing.power import PowerLog
from ganger.testing.vfs import PowerVfs


@dataclass(frozen=True)
class Toll:
    cuts: int
    lost: int
    damaged: int
    recovered: int


@contextmanager
def opened(path: Path, vfs: str | None = None) -> Iterator[apsw.Connection]:
    with closing(apsw.Connection(str(path), vfs=vfs)) as connection:
        yield connection


def record(folder: Path, synchronous: str, *, journal: str = "wal", commits: int = 120, reopen: int = 40) -> PowerLog:
    """A run that commits, checkpoints every few pages, and closes and opens its file now and then."""
    log = PowerLog(folder)
    vfs = PowerVfs(f"power-{journal}-{synchronous}", log)
    for start in range(0, commits, reopen):
        with opened(folder / "store.db", vfs.name) as connection:
            connection.pragma("journal_mode", journal)
            connection.pragma("synchronous", synchronous)
            connection.wal_autocheckpoint(12)
            connection.execute("create table if not exists row(id integer primary key, filler blob)")
            for number in range(start, start + reopen):
                connection.execute("insert into row values(?, zeroblob(1500))", (number,))
                log.mark(number)
    vfs.unregister()
    return log


def cut_many(log: PowerLog, folder: Path, cuts: int) -> Toll:
    rng = random.Random(2024)
    lost = damaged = recovered = 0
    for at in sorted(rng.randrange(len(log) + 1) for _ in range(cuts)):
        folder.mkdir()
        acknowledged = set(log.crash(at=at, rng=rng, into=folder))
        present, sound = survey(folder / "store.db")
        lost += bool(acknowledged - present)
        recovered += bool(present - acknowledged)
        damaged += not sound
        shutil.rmtree(folder)
    return Toll(cuts, lost, damaged, recovered)


def survey(path: Path) -> tuple[set[object], bool]:
    """The rows that are there, and whether the file is sound."""
    try:
        with opened(path) as connection:
            sound = connection.pragma("integrity_check") == "ok"
            there = connection.table_exists(None, "row")
            return {number for (number,) in connection.execute("select id from row")} if there else set(), sound
    except (apsw.CorruptError, apsw.NotADBError):
        return set(), False


def live_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "live"
    folder.mkdir()
    return folder


@pytest.mark.slow
def test_synchronous_full_loses_nothing_in_500_cuts(tmp_path: Path) -> None:
    toll = cut_many(record(live_folder(tmp_path), "full"), tmp_path / "cut", 500)
    assert (toll.lost, toll.damaged) == (0, 0)
    assert toll.recovered > 0, (
        "no cut ever fell between a commit's bytes and its acknowledgement: the cuts are too tame"
    )


def test_synchronous_normal_is_found_to_lose_acknowledged_commits(tmp_path: Path) -> None:
    toll = cut_many(record(live_folder(tmp_path), "normal"), tmp_path / "cut", 100)
    assert toll.lost > 10
    assert toll.damaged == 0


def test_a_removed_rollback_journal_that_comes_back_takes_a_commit_with_it_unless_the_folder_is_synced(
    tmp_path: Path,
) -> None:
    full, extra = tmp_path / "full", tmp_path / "extra"
    full.mkdir()
    extra.mkdir()
    weak = cut_many(record(full, "full", journal="delete", commits=40), tmp_path / "cut", 200)
    sound = cut_many(record(extra, "extra", journal="delete", commits=40), tmp_path / "cut", 200)
    assert weak.lost > 0
    assert (sound.lost, sound.damaged) == (0, 0)


def test_synchronous_off_is_found_to_damage_the_file(tmp_path: Path) -> None:
    toll = cut_many(record(live_folder(tmp_path), "off"), tmp_path / "cut", 100)
    assert toll.damaged > 0


def test_a_file_that_was_there_before_the_recording_is_part_of_every_disk(tmp_path: Path) -> None:
    folder = live_folder(tmp_path)
    with opened(folder / "store.db") as connection:
        connection.execute("create table row(id integer primary key); insert into row values(1)")
    log = PowerLog(folder)
    vfs = PowerVfs("power-before", log)
    with opened(folder / "store.db", vfs.name) as connection:
        connection.execute("select * from row").fetchall()
    (tmp_path / "cut").mkdir()
    log.crash(at=len(log), rng=random.Random(0), into=tmp_path / "cut")
    assert survey(tmp_path / "cut" / "store.db") == ({1}, True)


def test_files_outside_the_folder_of_the_log_are_left_alone(tmp_path: Path) -> None:
    log = PowerLog(live_folder(tmp_path))
    vfs = PowerVfs("power-outside", log)
    with opened(tmp_path / "other.db", vfs.name) as connection:
        connection.execute("create table row(id); create temp table spare(id); insert into spare values(1)")
    assert len(log) == 0


def test_a_copy_of_a_whole_recording_that_was_closed_equals_the_live_file(tmp_path: Path) -> None:
    log = record(live_folder(tmp_path), "full", commits=20, reopen=20)
    (tmp_path / "cut").mkdir()
    log.crash(at=len(log), rng=random.Random(3), into=tmp_path / "cut")
    assert survey(tmp_path / "cut" / "store.db") == survey(tmp_path / "live" / "store.db")
