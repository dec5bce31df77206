"""Whether anything was written to the log: by the kernel's word, and where there is none by its time stamp."""

import os
import select
from pathlib import Path

import pytest

from ganger.databases.sqlite.lookout import EVERY_MS, Lookout
from ganger.testing.clock import FakeClock

PATIENCE_MS = 60_000


def write(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"x")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "ganger.db-wal"
    write(path)
    return path


def has_word(lookout: Lookout, patience: int = PATIENCE_MS) -> bool:
    ready = select.poll()
    ready.register(lookout.notice.descriptor, select.POLLIN)
    return bool(ready.poll(patience))


def test_the_first_write_is_followed_by_one_look_a_moment_later(log: Path) -> None:
    clock = FakeClock()
    lookout = Lookout(str(log), clock)
    lookout.begin()
    assert (lookout.due, lookout.should_look()) == (None, False)
    write(log)
    assert has_word(lookout)
    lookout.hear()
    assert not lookout.should_look()
    clock.advance(EVERY_MS)
    assert lookout.should_look()
    assert (lookout.due, lookout.should_look()) == (None, False)
    lookout.close()


def test_a_busy_log_gives_word_once_until_it_was_looked(log: Path) -> None:
    clock = FakeClock()
    lookout = Lookout(str(log), clock)
    lookout.begin()
    write(log)
    assert has_word(lookout)
    lookout.hear()
    write(log)
    assert not has_word(lookout, 0)
    clock.advance(EVERY_MS)
    assert lookout.should_look()
    write(log)
    assert has_word(lookout)
    lookout.close()


def test_without_word_from_the_kernel_the_time_stamp_tells(log: Path) -> None:
    clock = FakeClock()
    lookout = Lookout(str(log), clock)
    lookout.close()
    lookout.begin()
    seen = []
    for stamp in (1, 1, 2, 2):
        os.utime(log, (stamp, stamp))
        assert not lookout.should_look()
        clock.advance(EVERY_MS)
        seen.append(lookout.should_look())
    assert seen == [True, False, True, False]


def test_a_time_stamp_of_just_now_counts_as_written_again(log: Path) -> None:
    """Two writes of one tick of the system have one time."""
    clock = FakeClock()
    lookout = Lookout(str(log), clock)
    lookout.close()
    lookout.begin()
    for _ in range(3):
        clock.advance(EVERY_MS)
        stamp = clock.wall() / 1_000
        os.utime(log, (stamp, stamp))
        assert lookout.should_look()
    clock.advance(EVERY_MS)
    assert not lookout.should_look()
