"""Who has just begun is left alone for a moment: each for its own, however many begin after it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ganger.node.guardian.attempt import NEVER
from ganger.node.guardian.books import Books
from ganger.node.guardian.floor import Floor
from ganger.node.guardian.journal import Journal, Past
from ganger.node.guardian.keep import SAY_AFTER, Keep, Tools
from ganger.node.guardian.loop import Eyes
from ganger.node.guardian.mark import Mark
from ganger.node.guardian.messages import FromGuardian, Grew, Start, Started
from ganger.node.guardian.spare import Spare
from ganger.node.guardian.spawn import Spawner
from ganger.testing import FakeClock

MARK = Mark(7)


class Kept:
    """A keep without a guardian around it, whose turns are made by hand."""

    def __init__(self, folder: Path) -> None:
        journal = Journal(str(folder / "journal"))
        journal.renew([], [])
        self.clock = FakeClock()
        self.told: list[FromGuardian] = []
        self.eyes = Eyes()
        self.folder = folder
        books = Books(journal, Past({}, {}))
        spare, floor, spawner = Spare(str(folder / "spare")), Floor(MARK), Spawner(MARK, None, False)
        tools = Tools(str(folder), spare, 1 << 20, self.clock, self.eyes, floor, spawner, books)
        self.keep = Keep(tools, 0, self.told.append)
        self.mains = books.mains

    def begin(self, task: int, *argv: str) -> None:
        self.keep.start(Start(task, 1, list(argv), {"PATH": os.defpath}, "/", NEVER))
        self.keep.turn(child_died=False)

    def pass_time(self, ms: int) -> list[int]:
        """The tasks of which it is said then that they run."""
        self.clock.advance(ms)
        self.told.clear()
        self.keep.turn(child_died=False)
        return [message.task for message in self.told if isinstance(message, Started)]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    yield kept
    for pid in kept.mains:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    kept.eyes.close()


def test_each_is_told_when_it_has_run_for_a_moment_and_not_with_those_before_it(kept: Kept) -> None:
    kept.begin(1, "sleep", "60")
    assert kept.pass_time(SAY_AFTER - 1) == []
    kept.begin(2, "sleep", "60")
    assert kept.pass_time(1) == [1]
    assert kept.keep.wait() == SAY_AFTER - 1
    assert kept.pass_time(SAY_AFTER - 2) == []
    assert kept.pass_time(1) == [2]
    assert kept.pass_time(1_000) == []


def test_what_it_has_said_meanwhile_is_taken_afterwards(kept: Kept) -> None:
    kept.begin(1, "sh", "-c", "echo hello; exec sleep 60")
    kept.keep.watch((1, 1))
    said = kept.folder / "1.1.stdout"
    assert kept.pass_time(SAY_AFTER) == [1]
    while not said.exists():
        kept.eyes.look(60.0)
    assert said.read_text() == "hello\n"
    kept.pass_time(1_000)
    assert [message.streams for message in kept.told if isinstance(message, Grew)] == [
        [(1, 1, "stdout", 6, 0), (1, 1, "mixedout", 6, 0)]
    ]
