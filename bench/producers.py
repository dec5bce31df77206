"""Processes that submit: all set up first, all let go at one moment, each noting when it ended."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Barrier
from typing import Any

Gate = Callable[[], None]
Produce = Callable[..., None]

_PATIENCE = 120.0


class Producers:
    """`produce(gate, number, *arguments)` in each of `count` processes: it sets itself up, calls the gate, submits."""

    def __init__(self, count: int, produce: Produce, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._barrier: Barrier = context.Barrier(count + 1)
        self._ends = context.Array("d", count)
        self._processes: list[BaseProcess] = [
            context.Process(target=_run, args=(produce, self._barrier, self._ends, number, arguments), daemon=True)
            for number in range(count)
        ]

    def start(self) -> None:
        for process in self._processes:
            process.start()

    def release(self) -> float:
        """Wait until every producer is ready, let all go, and return the moment."""
        self._barrier.wait(_PATIENCE)
        return time.perf_counter()

    def finish(self) -> float:
        """Wait for all, and return the moment at which the last had submitted its last task."""
        for process in self._processes:
            process.join(_PATIENCE)
            if process.exitcode != 0:
                raise RuntimeError(f"a producer ended with {process.exitcode}")
        return float(max(self._ends[:]))


def _run(produce: Produce, barrier: Barrier, ends: Any, number: int, arguments: tuple[Any, ...]) -> None:
    produce(lambda: barrier.wait(_PATIENCE), number, *arguments)
    ends[number] = time.perf_counter()
