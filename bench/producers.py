"""Processes that submit: all set up first, all let go at one moment, each noting when it was done.

They end when everything was measured: to take an interpreter apart is work that nobody asked about, and eight of them
would do it while the last tasks run.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier, Event
from typing import Any, NamedTuple

Gate = Callable[[], None]
Produce = Callable[..., None]

_PATIENCE = 120.0


class Signals(NamedTuple):
    """All are ready; all was measured; when each was done."""

    barrier: Barrier
    over: Event
    ends: Any


class Producers:
    """`produce(gate, number, *arguments)` in each of `count` processes: it sets itself up, calls the gate, submits."""

    def __init__(self, count: int, produce: Produce, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._signals = Signals(context.Barrier(count + 1), context.Event(), context.Array("d", count))
        self._processes: list[BaseProcess] = [
            context.Process(target=_run, args=(produce, self._signals, number, arguments), daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        for process in self._processes:
            process.start()

    def release(self) -> float:
        """Wait until every producer is ready, let all go, and return the moment."""
        self._signals.barrier.wait(_PATIENCE)
        return time.perf_counter()

    def finish(self) -> float:
        """Wait for all to be done and end, and return the moment at which the last had submitted its last task."""
        self._signals.over.set()
        for process in self._processes:
            process.join(_PATIENCE)
            if process.exitcode != 0:
                raise RuntimeError(f"a producer ended with {process.exitcode}")
        return float(max(self._signals.ends[:]))


def _run(produce: Produce, signals: Signals, number: int, arguments: tuple[Any, ...]) -> None:
    produce(lambda: signals.barrier.wait(_PATIENCE), number, *arguments)
    signals.ends[number] = time.perf_counter()
    signals.over.wait(_PATIENCE)
