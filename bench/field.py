"""The same four loads for every contender: a real worker process, and producers in processes of their own."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.contender import Contender, find_contender
from bench.place import Place, announce
from bench.producers import Gate, Producers
from bench.tally import Bell, StalledError, await_tasks
from bench.worker import Running, working

WARM = 20
_PAUSE = 0.004
"""Between two timed tasks, so that the worker has gone back to waiting."""
_SETTLED = 30.0
_LOG = "worker.log"


def drain(folder: Path, *, contender: str, place: Place, tasks: int) -> float:
    """Tasks a second from the first body to the last of a queue that was full before the worker started."""
    player = enter(folder, contender, place)
    player.fill(tasks)
    with working(player.worker, folder / _LOG) as running:
        ran = await_tasks(folder, tasks, running)
        return tasks / (_await_end(player, ran.last, tasks, running) - ran.first)


def run_in_bulk(folder: Path, *, contender: str, place: Place, tasks: int) -> float:
    """Tasks a second from the first submit in bulk of another process to the last body."""
    player = enter(folder, contender, place)
    return _run(player, folder, Producers(1, _submit_in_bulk, contender, tasks), tasks)


def run_one_by_one(folder: Path, *, contender: str, place: Place, tasks: int, producers: int) -> float:
    """Tasks a second from the first submit of any producer to the last body."""
    player = enter(folder, contender, place)
    return _run(player, folder, Producers(producers, _submit_one_by_one, contender, tasks // producers), tasks)


def time_latency(folder: Path, *, contender: str, place: Place, tasks: int) -> tuple[float, float]:
    """Milliseconds from the call that submits to the start of the body, p50 and p99; one task at a time."""
    player = enter(folder, contender, place)
    bell = Bell(folder)
    times: list[float] = []
    with working(player.worker, folder / _LOG) as running:
        ring = partial(bell.wait, running)
        player.submit("stamp", paced(ring, [], WARM))
        player.submit("stamp", paced(ring, times, tasks))
    return summarise(times)


def summarise(seconds: list[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    return statistics.median(seconds) * 1000, statistics.quantiles(seconds, n=100, method="inclusive")[98] * 1000


def enter(folder: Path, contender: str, place: Place) -> Contender:
    """The contender, with its queue installed and empty; its processes find this folder."""
    announce(replace(place, folder=str(folder)))
    player = find_contender(contender)
    player.prepare()
    return player


def _run(player: Contender, folder: Path, crowd: Producers, tasks: int) -> float:
    crowd.start()
    with working(player.worker, folder / _LOG) as running:
        player.submit("note", range(WARM))
        await_tasks(folder, WARM, running)
        began = crowd.release()
        ran = await_tasks(folder, tasks + WARM, running)
        ended = _await_end(player, ran.last, tasks + WARM, running)
        crowd.finish()
    return tasks / (ended - began)


def _submit_in_bulk(gate: Gate, _number: int, contender: str, tasks: int) -> None:
    submit = find_contender(contender).submit_in_bulk
    assert submit is not None
    gate()
    submit(tasks)


def _submit_one_by_one(gate: Gate, _number: int, contender: str, tasks: int) -> None:
    find_contender(contender).submit("note", _gated(gate, tasks))


def _gated(gate: Gate, tasks: int) -> Iterator[int]:
    """The turns of a producer, which is connected when it asks for the first."""
    gate()
    yield from range(tasks)


def paced(ring: Callable[[], float], times: list[float], tasks: int) -> Iterator[None]:
    """Turns to submit one task each; the time until its body began is noted, and then there is a pause."""
    for _ in range(tasks):
        time.sleep(_PAUSE)
        asked = time.perf_counter()
        yield
        times.append(ring() - asked)


def _await_end(player: Contender, last: float, tasks: int, running: Running) -> float:
    """When it was over: with the last body, or where a system can tell, with the last settle on disk."""
    if player.has_settled is None:
        return last
    deadline = time.monotonic() + _SETTLED
    while not player.has_settled(tasks):
        if not running() or time.monotonic() > deadline:
            raise StalledError(f"all {tasks} bodies ran, but not all are settled")
        time.sleep(0.001)
    return time.perf_counter()
