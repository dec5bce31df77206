"""How slow this machine is at the moment, for figures that are promised on one that does nothing else.

A process beside the test does a small piece of work again and again: it computes, writes and syncs. What that takes,
over what it takes on a quiet machine, is told with each figure, so that whoever reads a failure knows what the machine
was doing. The figures themselves are asked for as they are promised.
"""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[1]
NUMBERS: Final = 200_000
PAUSE: Final = 0.04
ROUNDS: Final = 3
"""The best of these counts: whatever else the machine does makes it worse, never better."""
QUIET: Final = 0.006
"""Seconds that a piece takes on a quiet machine with two cores and a disk without moving parts."""


class Slowness:
    """`factor` is known when the measurement is over: 1 on a quiet machine, else more."""

    factor = 1.0

    def __str__(self) -> str:
        return f"machine {self.factor:.1f} times slower than a quiet one"


@contextmanager
def measuring(folder: Path) -> Iterator[Slowness]:
    """Measure until the block ends; the folder is on the disk that matters."""
    found = Slowness()
    command = [sys.executable, "-m", "tests.yardstick", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as beside:
        assert beside.stdout is not None
        beside.stdout.readline()
        try:
            yield found
        finally:
            told, _ = beside.communicate()
            found.factor = rate(json.loads(told))


def reach(folder: Path, measure: Callable[[Path], T], is_reached: Callable[[T, Slowness], bool]) -> None:
    """Measure until the figure is reached, a few times at most, each time in a folder of its own."""
    for number in range(ROUNDS):
        place = folder / str(number)
        place.mkdir()
        with measuring(place) as slowness:
            found = measure(place)
        if is_reached(found, slowness):
            return
    raise AssertionError(f"the figure is not reached: {found}, on a {slowness}")


def rate(pieces: list[float]) -> float:
    """By the slowest tenth: what is promised is promised for nearly all of many, too."""
    slowest = sorted(pieces)[len(pieces) * 9 // 10 :]
    return max(1.0, sum(slowest) / len(slowest) / QUIET)


def work(fd: int) -> float:
    began = time.monotonic()
    sum(range(NUMBERS))
    os.pwrite(fd, bytes(4_096), 0)
    os.fdatasync(fd)
    return time.monotonic() - began


def main(folder: str) -> None:
    with tempfile.TemporaryFile(dir=folder) as file:
        pieces = [work(file.fileno())]
        print("measuring", flush=True)
        while not select.select([sys.stdin], [], [], PAUSE)[0]:
            pieces.append(work(file.fileno()))
    print(json.dumps(pieces))


if __name__ == "__main__":
    main(sys.argv[1])
