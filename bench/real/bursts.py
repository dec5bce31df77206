"""A steady trickle of tasks that take a while, with bursts of many on top: how long each waits for its start."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contender import find_contender
from bench.field import enter, summarise
from bench.place import Place
from bench.producers import Gate, Producers
from bench.tally import await_tasks, read_waits
from bench.worker import working

_WARM = 10
"""So many for each worker run before the clock starts."""


@dataclass(frozen=True, slots=True)
class Mix:
    """`rate` tasks a second for so many seconds, and besides `burst` tasks at each of these seconds."""

    rate: int = 50
    seconds: float = 6.0
    burst: int = 1_000
    at: tuple[float, ...] = (0.5, 3.5)

    @property
    def tasks(self) -> int:
        return int(self.rate * self.seconds) + self.burst * len(self.at)

    def steady(self) -> Iterator[tuple[float, int]]:
        """When how many are due."""
        return ((number / self.rate, 1) for number in range(int(self.rate * self.seconds)))

    def bursts(self) -> Iterator[tuple[float, int]]:
        return ((second, self.burst) for second in self.at)


def time_bursts(folder: Path, *, contender: str, place: Place, mix: Mix) -> tuple[float, float]:
    """Milliseconds from the moment at which a task is due to the start of its body, p50 and p99 of all."""
    player = enter(folder, contender, place)
    assert player.send is not None
    crowd = Producers(2, _produce, contender, mix)
    crowd.start()
    with working(player.worker, folder / "worker.log") as running:
        warm = _WARM * place.workers
        player.send([[math.nan] * warm])
        await_tasks(folder, warm, running)
        crowd.release()
        await_tasks(folder, warm + mix.tasks, running)
        crowd.finish()
    waits = read_waits(folder)
    if len(waits) != mix.tasks:
        raise RuntimeError(f"{len(waits)} of {mix.tasks} tasks told how long they had waited")
    return summarise(waits)


def _produce(gate: Gate, number: int, contender: str, mix: Mix) -> None:
    send = find_contender(contender).send
    assert send is not None
    send(_pace(gate, mix.bursts() if number else mix.steady()))


def _pace(gate: Gate, due: Iterator[tuple[float, int]]) -> Iterator[Sequence[float]]:
    """Each batch when it is due. One that is late counts from then on all the same: its users wait already."""
    gate()
    began = time.perf_counter()
    for second, tasks in due:
        time.sleep(max(0.0, began + second - time.perf_counter()))
        yield [began + second] * tasks
