"""The derived disks keep what was synced and gamble with the rest."""

import random
from pathlib import Path

import pytest

from ganger.testing.power import Created, FolderSynced, Found, PowerLog, Removed, Step, Synced, Truncated, Wrote

ROUNDS = 300


def disks(folder: Path, *steps: Step) -> list[dict[str, bytes]]:
    """Many disks as power loss after these steps could leave them."""
    log = PowerLog(folder / "live")
    for step in steps:
        log.record(step)
    outcomes = []
    for seed in range(ROUNDS):
        into = folder / str(seed)
        into.mkdir(parents=True)
        log.crash(at=len(log), rng=random.Random(seed), into=into)
        outcomes.append({path.name: path.read_bytes() for path in into.iterdir()})
    return outcomes


def contents(folder: Path, *steps: Step) -> set[bytes]:
    return {disk["a"] for disk in disks(folder, *steps)}


def test_what_was_synced_is_always_there(tmp_path: Path) -> None:
    steps = (Created("a"), FolderSynced("."), Wrote("a", 0, b"kept"), Synced("a", 3))
    assert contents(tmp_path, *steps) == {b"kept"}


def test_an_unsynced_write_is_there_or_not(tmp_path: Path) -> None:
    assert contents(tmp_path, Found("a", b"old"), Wrote("a", 0, b"new")) == {b"old", b"new"}


def test_a_write_that_began_after_the_sync_did_is_not_covered_by_it(tmp_path: Path) -> None:
    steps = (Found("a", b"...."), Wrote("a", 0, b"1"), Wrote("a", 1, b"2"), Synced("a", 2))
    assert contents(tmp_path, *steps) == {b"1...", b"12.."}


def test_a_write_is_torn_only_between_sectors(tmp_path: Path) -> None:
    found = contents(tmp_path, Found("a", b"o" * 1536), Wrote("a", 100, b"n" * 1300))
    pieces = [(b"o" * 412, b"n" * 412), (b"o" * 512, b"n" * 512), (b"o" * 376, b"n" * 376)]
    legal = {b"o" * 100 + x + y + z + b"o" * 136 for x in pieces[0] for y in pieces[1] for z in pieces[2]}
    assert found == legal


def test_a_lost_write_below_a_kept_one_leaves_a_hole_of_zeros(tmp_path: Path) -> None:
    found = contents(tmp_path, Found("a", b""), Wrote("a", 0, b"aa"), Wrote("a", 2, b"bb"))
    assert found == {b"", b"aa", b"\0\0bb", b"aa\0\0", b"aabb", b"\0\0\0\0"}


def test_an_unsynced_truncation_is_kept_or_dropped(tmp_path: Path) -> None:
    assert contents(tmp_path, Found("a", b"long"), Truncated("a", 1)) == {b"long", b"l"}


def test_a_synced_file_vanishes_if_its_folder_was_never_synced(tmp_path: Path) -> None:
    found = disks(tmp_path, Created("a"), Wrote("a", 0, b"x"), Synced("a", 2))
    assert {disk.get("a") for disk in found} == {None, b"x"}


def test_a_removed_file_comes_back_until_the_folder_is_synced(tmp_path: Path) -> None:
    before = disks(tmp_path / "before", Found("a", b"x"), Removed("a"))
    after = disks(tmp_path / "after", Found("a", b"x"), Removed("a"), FolderSynced("."))
    assert {disk.get("a") for disk in before} == {None, b"x"}
    assert {disk.get("a") for disk in after} == {None}


def test_a_sync_of_one_folder_says_nothing_of_another(tmp_path: Path) -> None:
    log = PowerLog(tmp_path / "live")
    log.record(Created("sub/a"))
    log.record(FolderSynced("."))
    for seed in range(50):
        log.crash(at=2, rng=random.Random(seed), into=tmp_path / str(seed))
    assert {(tmp_path / str(seed) / "sub" / "a").exists() for seed in range(50)} == {True, False}


def test_changes_of_a_removed_file_reach_nothing(tmp_path: Path) -> None:
    steps = (Found("a", b"x"), Removed("a"), FolderSynced("."), Wrote("a", 0, b"y"), Synced("a", 4))
    assert all(disk == {} for disk in disks(tmp_path, *steps))


def test_a_crash_tells_the_marks_made_before_it_in_any_order_of_asking(tmp_path: Path) -> None:
    log = PowerLog(tmp_path)
    log.mark("first")
    log.record(Created("a"))
    log.mark("second")
    told = [log.crash(at=at, rng=random.Random(1), into=tmp_path) for at in (3, 0, 2, 1, 3)]
    assert told == [["first", "second"], [], ["first"], ["first"], ["first", "second"]]


def test_the_same_seed_gives_the_same_disk(tmp_path: Path) -> None:
    log = PowerLog(tmp_path / "live")
    log.record(Found("a", b""))
    for number in range(20):
        log.record(Wrote("a", number * 700, bytes([number]) * 900))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        log.crash(at=15, rng=random.Random(7), into=tmp_path / name)
    assert (tmp_path / "one" / "a").read_bytes() == (tmp_path / "two" / "a").read_bytes()


@pytest.mark.parametrize("at", [-1, 1])
def test_a_crash_outside_the_recording_is_refused(tmp_path: Path, at: int) -> None:
    with pytest.raises(ValueError, match="a crash falls at 0 to 0"):
        PowerLog(tmp_path).crash(at=at, rng=random.Random(0), into=tmp_path)
