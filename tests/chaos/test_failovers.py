"""Leaders are killed and stopped: nothing of an old epoch is taken, there are never two, and the next one comes
soon."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ganger.coordination.fence import prepare_epochs
from ganger.runtime.clock import SystemClock
from tests.folders import folder_in_memory
from tests.servers.documents import SHARED, find_address, mark_servers

pytestmark = pytest.mark.chaos
TTL = 1_000
LOCKS = 10
PROCESSES = 3
FAILOVERS = int(os.environ.get("GANGER_TEST_FAILOVERS", "20"))
PATIENCE = 60.0
ROOT = Path(__file__).parents[2]


class Line(NamedTuple):
    what: str
    lock: str
    epoch: tuple[int, int]
    at: int
    pid: int


class Yard:
    """Processes that stand for the same leads, the database that they write to, and what they say."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        self._database = folder / "protected.db"
        self.processes: dict[int, subprocess.Popen[str]] = {}
        with closing(sqlite3.connect(self._database)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            prepare_epochs(connection)
            connection.execute(
                "CREATE TABLE act (at INTEGER PRIMARY KEY, lock TEXT, term INTEGER, number INTEGER, pid INTEGER)"
            )
            connection.commit()

    def start(self) -> None:
        log = self._folder / f"log-{len(list(self._folder.glob('log-*')))}"
        words = [self._address, str(self._database), str(log), str(LOCKS), str(TTL)]
        command = [sys.executable, "-m", "tests.chaos.candidate", *words]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "standing\n"
        self.processes[process.pid] = process

    def lines(self) -> list[Line]:
        found = []
        for log in self._folder.glob("log-*"):
            for line in log.read_text().splitlines():
                # The last line of one that was killed may be half of one.
                if line.endswith("}"):
                    told = json.loads(line)
                    found.append(Line(told["what"], told["lock"], tuple(told["epoch"]), told["at"], told["pid"]))
        return found

    def leaders(self) -> dict[str, Line]:
        """The last act under each lock."""
        latest: dict[str, Line] = {}
        for line in self.lines():
            if line.what == "act" and (line.lock not in latest or line.epoch > latest[line.lock].epoch):
                latest[line.lock] = line
        return latest

    def rows(self) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._database)) as connection:
            return connection.execute("SELECT lock, term, number FROM act ORDER BY at").fetchall()

    def await_leads(self, is_done: Callable[[dict[str, Line]], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_done(self.leaders()):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()


@pytest.fixture
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    place = request.getfixturevalue("place")
    with folder_in_memory() as folder:
        yard = Yard(find_address(place, request, folder), folder)
        try:
            yield yard
        finally:
            yard.stop()


@pytest.mark.parametrize("place", mark_servers(SHARED))
def test_a_new_leader_comes_soon_and_nothing_of_the_old_is_taken(place: str, yard: Yard) -> None:
    for _ in range(PROCESSES):
        yard.start()
    yard.await_leads(lambda leads: len(leads) == LOCKS)
    took: list[int] = []
    fault = 0
    while len(took) < FAILOVERS:
        took += disturb(yard, signal.SIGKILL if fault % 2 else signal.SIGSTOP)
        fault += 1

    check_rows(yard.rows())
    check_trust([line for line in yard.lines() if line.what == "act"])
    took.sort()
    print(f"{place}: {len(took)} failovers, median {took[len(took) // 2]} ms, longest {took[-1]} ms")
    assert took[min(len(took) - 1, len(took) * 99 // 100)] <= 2 * TTL


def disturb(yard: Yard, how: signal.Signals) -> list[int]:
    """Kill or stop the process that leads most; the milliseconds after which others led instead."""
    leads = yard.leaders()
    by_pid: dict[int, list[str]] = {}
    for lock, line in leads.items():
        by_pid.setdefault(line.pid, []).append(lock)
    victim = max((pid for pid in by_pid if pid in yard.processes), key=lambda pid: len(by_pid[pid]))
    clock = SystemClock()
    at = clock.now()
    yard.processes[victim].send_signal(how)
    orphaned = by_pid[victim]
    yard.await_leads(lambda found: all(found[lock].epoch > leads[lock].epoch for lock in orphaned))
    took = [first_act(yard, lock, leads[lock].epoch) - at for lock in orphaned]
    if how == signal.SIGSTOP:
        # It goes on as if nothing had happened, and what it had begun is refused.
        yard.processes[victim].send_signal(signal.SIGCONT)
    else:
        yard.processes.pop(victim).communicate()
        yard.start()
    return took


def first_act(yard: Yard, lock: str, after: tuple[int, int]) -> int:
    later = [line for line in yard.lines() if line.what == "act" and line.lock == lock and line.epoch > after]
    return min(later, key=lambda line: (line.epoch, line.at)).at


def check_rows(rows: list[tuple[Any, ...]]) -> None:
    """What was accepted under each lock has epochs that never fall."""
    for lock in {row[0] for row in rows}:
        epochs = [row[1:] for row in rows if row[0] == lock]
        assert epochs == sorted(epochs)
        assert len(epochs) > 1


def check_trust(acts: list[Line]) -> None:
    """Nobody found its lock to be trusted after a later holder had."""
    for lock in {line.lock for line in acts}:
        spans: dict[tuple[int, int], list[int]] = {}
        for line in acts:
            if line.lock == lock:
                spans.setdefault(line.epoch, []).append(line.at)
        for before, after in pairwise(sorted(spans)):
            assert max(spans[before]) < min(spans[after]), (lock, before, after)
