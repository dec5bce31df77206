"""What a program writes lands in the spool's files, as the spool itself would have written it."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ganger.core.ids import Fence, TaskId
from ganger.node.guardian.spare import LAST, Spare
from ganger.node.guardian.taps import CHUNK, Pipes, Sink, look
from ganger.node.spool import Bell, Extent, Spool, SpoolKey
from ganger.node.spool import look as look_at
from ganger.wire.cuts import FULL

BUFFER = memoryview(bytearray(CHUNK))
KEY = (22, 3)


def say(pipes: Pipes, *texts: bytes) -> None:
    """Write one text to each pipe in turn, and have it drawn at once."""
    for tap, writer, text in zip(pipes.taps, pipes.writers, texts, strict=False):
        os.write(writer, text)
        tap.draw(BUFFER)


@pytest.mark.parametrize("cap", [0, 5, 11, 100])
def test_the_files_are_those_that_the_spool_writes(tmp_path: Path, cap: int) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "spools").mkdir()
    pipes = Pipes(str(tmp_path / "ours"), KEY, cap, merge=False)
    for _ in range(3):
        say(pipes, b"four", b"")
    pipes.close(BUFFER)
    writer = Spool(tmp_path / "spools", cap).write(SpoolKey(TaskId(22), Fence(3), "stdout"), Bell())
    for _ in range(3):
        writer.write(b"four")
    writer.close()
    for path in (tmp_path / "spools").iterdir():
        assert (tmp_path / "ours" / path.name).read_bytes() == path.read_bytes()
    assert look_at(tmp_path / "ours" / "22.3.stdout") == look_at(tmp_path / "spools" / "22.3.stdout")


def test_both_streams_are_also_kept_in_the_order_of_their_arrival(tmp_path: Path) -> None:
    pipes = Pipes(str(tmp_path), KEY, 1 << 20, merge=False)
    say(pipes, b"one ", b"two ")
    say(pipes, b"three ", b"four")
    pipes.close(BUFFER)
    assert (tmp_path / "22.3.stdout").read_bytes() == b"one three "
    assert (tmp_path / "22.3.stderr").read_bytes() == b"two four"
    assert (tmp_path / "22.3.mixedout").read_bytes() == b"one two three four"
    assert pipes.extents() == {"stdout": (10, 0), "stderr": (8, 0), "mixedout": (18, 0)} == look(str(tmp_path), KEY)


def test_a_silent_program_leaves_no_file(tmp_path: Path) -> None:
    pipes = Pipes(str(tmp_path), KEY, 1 << 20, merge=True)
    pipes.close(BUFFER)
    assert list(tmp_path.iterdir()) == []
    assert pipes.extents() == {} == look(str(tmp_path), KEY)


def test_the_end_of_a_pipe_and_an_empty_one_are_told_apart(tmp_path: Path) -> None:
    pipes = Pipes(str(tmp_path), KEY, 1 << 20, merge=True)
    (tap,) = pipes.taps
    assert tap.draw(BUFFER) == -1
    os.write(pipes.writers[0], b"last words")
    pipes.hand_over()
    assert tap.draw(BUFFER) == 10
    assert tap.draw(BUFFER) == 0
    pipes.close(BUFFER)


@contextmanager
def small_files(most: int) -> Iterator[None]:
    """The system refuses to let any file grow further, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_the_disk_cannot_take_is_counted_and_the_program_goes_on(tmp_path: Path) -> None:
    pipes = Pipes(str(tmp_path), KEY, 1 << 20, merge=True)
    with small_files(6):
        say(pipes, b"four")
        say(pipes, b"four")
        say(pipes, b"four")
    # There is room again, but a stream has no holes.
    say(pipes, b"four")
    pipes.close(BUFFER)
    assert (tmp_path / "22.3.stdout").read_bytes() == b"fourfo"
    assert pipes.extents()["stdout"] == (6, 10)
    assert look_at(tmp_path / "22.3.stdout") == Extent(6, 10)


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for merge in (False, True):
        pipes = Pipes(str(tmp_path), KEY, 1 << 20, merge)
        say(pipes, b"out", b"err")
        pipes.close(BUFFER)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("is_left", [False, True], ids=["links", "copies"])
def test_one_pipe_fills_two_streams_and_one_file_where_that_is_possible(tmp_path: Path, is_left: bool) -> None:
    first, mixed = tmp_path / "22.3.stdout", tmp_path / "22.3.mixedout"
    if is_left:
        mixed.write_bytes(b"from before")
    pipes = Pipes(str(tmp_path), KEY, 5, merge=True)
    say(pipes, b"four")
    say(pipes, b"more")
    pipes.close(BUFFER)
    assert (first.read_bytes(), mixed.read_bytes()) == (b"fourm", b"fourm")
    assert first.samefile(mixed) is not is_left
    assert pipes.extents() == {"stdout": (5, 3), "mixedout": (5, 3)} == look(str(tmp_path), KEY)


def test_what_one_stream_has_gained_on_a_full_disk_is_for_all(tmp_path: Path) -> None:
    """Else a flood that meets the end of the disk later takes all that was spared."""
    spare = Spare(str(tmp_path / "spare"))
    spare.hold()
    sink = Sink(str(tmp_path), (1, 1), "stdout", 1 << 30, spare)
    sink.write(memoryview(b"before"))

    spare.release()
    sink.write(memoryview(b"x" * 3 * LAST))
    sink.close()

    assert (sink.length, sink.dropped, sink.fault) == (len(b"before") + LAST, 2 * LAST, FULL)
    later = Sink(str(tmp_path), (2, 1), "stdout", 1 << 30, spare)
    spare.hold()
    later.write(memoryview(b"x" * 3 * LAST))
    later.close()
    assert (later.length, later.fault) == (3 * LAST, "")
