"""Bodies count themselves, in whatever thread they run, and a worker that stops is noticed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bench.tally import Bell, Ran, StalledError, Tally, await_tasks, note, read_tallies, stamp

_SOON = 0.02


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_PLACE", f'{{"folder": "{tmp_path}"}}')


def lives() -> bool:
    return True


def note_often() -> None:
    for _ in range(500):
        note()


def test_nothing_has_run_before_the_first_body(tmp_path: Path) -> None:
    assert read_tallies(tmp_path) == Ran()


def test_the_counts_of_all_are_added_and_the_first_and_last_are_found(tmp_path: Path) -> None:
    one, other = Tally(tmp_path / "tally-1"), Tally(tmp_path / "tally-2")
    for moment in (2.0, 5.0):
        one.note(moment)
    other.note(3.0)
    assert read_tallies(tmp_path) == Ran(3, 2.0, 5.0)
    assert await_tasks(tmp_path, 3, lives) == Ran(3, 2.0, 5.0)


def test_threads_lose_no_count(tmp_path: Path) -> None:
    threads = [threading.Thread(target=note_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_tallies(tmp_path).tasks == 2_000


def test_a_worker_that_is_gone_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(StalledError, match="0 of 5 tasks ran"):
        await_tasks(tmp_path, 5, lambda: False)


def test_a_worker_that_does_nothing_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(StalledError, match="0 of 5 tasks ran"):
        await_tasks(tmp_path, 5, lives, _SOON)


def test_a_body_that_ran_twice_is_noticed(tmp_path: Path) -> None:
    tally = Tally(tmp_path / "tally-1")
    tally.note(1.0)
    tally.note(2.0)
    with pytest.raises(StalledError, match="2 bodies ran for 1 tasks"):
        await_tasks(tmp_path, 1, lives)


def test_a_stamp_is_heard(tmp_path: Path) -> None:
    bell = Bell(tmp_path)
    stamp()
    assert bell.wait(lives) > 0
    with pytest.raises(StalledError, match="no body began"):
        bell.wait(lambda: False)
