"""How bodies tell that they ran, at next to no cost: a count in memory that is mapped, a stamp in a pipe, or how long
they had waited in a file.

Each thread that runs bodies has a file of its own, so that none waits for another. `time.perf_counter` is one clock
for all processes of a machine.
"""

from __future__ import annotations

import math
import mmap
import os
import select
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.place import find_place

_COUNT = struct.Struct("<qdd")
_STAMP = struct.Struct("<d")
WORK = 0.02
"""Seconds that a `work` takes."""

_LOOK = 0.005
_PATIENCE = 30.0
_SECOND = 1.0
_NEVER = float("inf")


def note() -> None:
    """The body of a no-op task: count it."""
    _open_tally(threading.get_native_id()).note(time.perf_counter())


def stamp() -> None:
    """The body of a task whose start is timed."""
    os.write(_open_bell(os.getpid()), _STAMP.pack(time.perf_counter()))


def ring(folder: Path) -> None:
    """Stamp from a process that no place was announced to."""
    os.write(_open_bell_in(folder), _STAMP.pack(time.perf_counter()))


def work(sent: float) -> None:
    """The body of a task that takes a while: note how long it had waited, or nothing if that is not a number."""
    note_wait(sent)
    time.sleep(WORK)


def note_wait(sent: float) -> None:
    os.write(_open_waits(threading.get_native_id()), _STAMP.pack(time.perf_counter() - sent))
    note()


async def note_async() -> None:
    note()


async def stamp_async() -> None:
    stamp()


class Tally:
    """How many bodies one thread ran, and when the first and the last began."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(_COUNT.pack(0, _NEVER, 0.0))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _COUNT.size)
        self._count, self._first = 0, _NEVER

    def note(self, now: float) -> None:
        self._count += 1
        self._first = min(self._first, now)
        _COUNT.pack_into(self._memory, 0, self._count, self._first, now)


@cache
def _open_tally(thread: int) -> Tally:
    return Tally(Path(find_place().folder) / f"tally-{thread}")


@cache
def _open_waits(thread: int) -> int:
    return os.open(Path(find_place().folder) / f"waits-{thread}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


@cache
def _open_bell(_process: int) -> int:
    return _open_bell_in(Path(find_place().folder))


@cache
def _open_bell_in(folder: Path) -> int:
    return os.open(folder / "bell", os.O_WRONLY)


@dataclass(frozen=True, slots=True)
class Ran:
    tasks: int = 0
    first: float = _NEVER
    last: float = 0.0


class StalledError(Exception):
    """Bodies stopped running before all had run."""


def read_tallies(folder: Path) -> Ran:
    """What all threads have run so far."""
    parts = [_COUNT.unpack(body) for path in folder.glob("tally-*") if len(body := path.read_bytes()) == _COUNT.size]
    if not parts:
        return Ran()
    counts, firsts, lasts = zip(*parts, strict=True)
    return Ran(sum(counts), min(firsts), max(lasts))


def read_waits(folder: Path) -> list[float]:
    """The seconds that each `work` had waited, of those that were sent with a moment."""
    waits = [wait for path in folder.glob("waits-*") for (wait,) in _STAMP.iter_unpack(path.read_bytes())]
    return [wait for wait in waits if not math.isnan(wait)]


def await_tasks(folder: Path, tasks: int, is_alive: Callable[[], bool], patience: float = _PATIENCE) -> Ran:
    """Wait until exactly so many have run; StalledError when the worker is gone, or none has run for a long time."""
    ran, moved = Ran(), time.monotonic()
    while ran.tasks < tasks:
        if not is_alive() or time.monotonic() - moved > patience:
            raise StalledError(f"{ran.tasks} of {tasks} tasks ran")
        time.sleep(_LOOK)
        seen = read_tallies(folder)
        moved = time.monotonic() if seen != ran else moved
        ran = seen
    if ran.tasks > tasks:
        raise StalledError(f"{ran.tasks} bodies ran for {tasks} tasks")
    return ran


class Bell:
    """The reading end of the stamps."""

    def __init__(self, folder: Path) -> None:
        path = folder / "bell"
        os.mkfifo(path)
        # Opened for both ways, it never ends when the last writer leaves.
        self._pipe = os.open(path, os.O_RDWR)

    def wait(self, is_alive: Callable[[], bool], patience: float = _PATIENCE) -> float:
        """The moment at which the next body began; StalledError when the worker is gone, or none begins."""
        deadline = time.monotonic() + patience
        while not select.select([self._pipe], [], [], _SECOND)[0]:
            if not is_alive() or time.monotonic() > deadline:
                raise StalledError(f"no body began within {patience:g} s")
        (moment,) = _STAMP.unpack(os.read(self._pipe, _STAMP.size))
        return float(moment)
