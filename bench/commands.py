"""`true` so many times, two at once: as command tasks of a real node on a SQLite file, by `xargs`, by GNU parallel.

Ganger's are durable, and their output and exit codes are kept. Counted is from the submit in bulk by another process
than the node's to the last settle on disk; of the others, the whole run of the program, which has read its input from a
file. Each starts its programs by their name in PATH.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import apsw

from bench.contender import script
from bench.worker import Running, working
from ganger import Ganger
from ganger.client.calls import command

_WARM = 50
_LOOK = 0.002
_PATIENCE = 120.0
_TRUE = command(["true"])


def run_ganger(folder: Path, *, tasks: int) -> float:
    """Commands a second through `ganger up` with two slots."""
    store = folder / "ganger.db"
    words = (script("ganger"), "up", "--store", f"sqlite:{store}", "--name", "bench", "--slots", "2", "--quiet")
    with Ganger(f"sqlite:{store}", upkeep=False) as app, working(words, store.with_suffix(".log")) as running:
        app.send([_TRUE] * _WARM)
        _await_settled(store, _WARM, running)
        began = time.perf_counter()
        app.send([_TRUE] * tasks)
        return tasks / (_await_settled(store, _WARM + tasks, running) - began)


def _await_settled(store: Path, tasks: int, running: Running) -> float:
    """The moment when so many have succeeded on disk."""
    reader = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)
    deadline = time.perf_counter() + _PATIENCE
    while reader.execute("SELECT sum(n) FROM tally WHERE status = 1").get != tasks:
        if not running() or time.perf_counter() > deadline:
            raise RuntimeError(f"not all {tasks} were settled: see {store.with_suffix('.log')}")
        time.sleep(_LOOK)
    return time.perf_counter()


def run_xargs(folder: Path, *, tasks: int) -> float:
    """Commands a second by `xargs -P2`, which keeps nothing."""
    return _time(folder, ("xargs", "-P2", "-n1", "true"), tasks)


def run_parallel(folder: Path, *, tasks: int) -> float:
    """Commands a second by GNU parallel, which keeps the output of each together."""
    return _time(folder, ("parallel", "-j2", "true"), tasks)


def _time(folder: Path, words: Sequence[str], tasks: int) -> float:
    arguments = folder / "arguments"
    arguments.write_text("1\n" * tasks)
    with arguments.open("rb") as given:
        began = time.perf_counter()
        subprocess.run(words, stdin=given, check=True)
        return tasks / (time.perf_counter() - began)
