"""A pipe that is far ahead of the disk rests until the disk has caught up, and nobody else does."""

import os
import select
from pathlib import Path

import pytest

from ganger.node.guardian.floods import AHEAD, Floods
from ganger.node.guardian.taps import CHUNK, Pipes
from ganger.runtime.clock import SystemClock

BUFFER = memoryview(bytearray(CHUNK))
PATIENCE = 60.0


def wait_for(floods: Floods) -> None:
    assert select.select([floods.done], [], [], PATIENCE)[0]
    floods.wake()


def test_a_rest_is_over_when_the_files_are_on_the_disk(tmp_path: Path) -> None:
    floods = Floods(SystemClock())
    said: list[OSError | None] = []
    with (tmp_path / "one").open("wb") as one, (tmp_path / "two").open("wb") as two:
        one.write(b"x" * 100)
        one.flush()
        floods.rest([one.fileno(), two.fileno()], said.append)
    wait_for(floods)
    assert said == [None]


def test_a_file_that_cannot_be_synced_is_told_and_the_next_one_is(tmp_path: Path) -> None:
    floods = Floods(SystemClock())
    said: list[OSError | None] = []
    reader, writer = os.pipe()
    floods.rest([writer], said.append)
    wait_for(floods)
    with (tmp_path / "one").open("wb") as file:
        floods.rest([file.fileno()], said.append)
    wait_for(floods)
    assert isinstance(said[0], OSError)
    assert said[1] is None
    os.close(reader)
    os.close(writer)


def test_a_descriptor_that_is_closed_already_rests_nobody() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        Floods(SystemClock()).rest([1, 999_999], print)


def test_a_tap_counts_how_far_it_is_ahead(tmp_path: Path) -> None:
    pipes = Pipes(str(tmp_path), (22, 3), 1 << 30, merge=True)
    (tap,) = pipes.taps
    assert (tap.ahead, tap.files()) == (0, [])
    while tap.ahead < AHEAD:
        os.write(pipes.writers[0], b"x" * 65_536)
        tap.draw(BUFFER)
    assert (tap.ahead, len(tap.files())) == (AHEAD, 1)
    pipes.close(BUFFER)
    assert tap.files() == []
