"""The same four loads for every contender: a real worker process, and producers in processes of their own."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.contender import Contender, find_contender
from bench.place import ROOT, Place, announce
from bench.producers import Gate, Producers
from bench.tally import Bell, StalledError, await_tasks

WARM = 20
_PAUSE = 0.004
"""Between two timed tasks, so that the worker has gone back to waiting."""
_STOP = 15.0
_SETTLED = 30.0

Running = Callable[[], bool]


def drain(folder: Path, *, contender: str, place: Place, tasks: int) -> float:
    """Tasks a second from the first body to the last of a queue that was full before the worker started."""
    player = _enter(folder, contender, place)
    player.fill(tasks)
    with _working(player, folder) as running:
        ran = await_tasks(folder, tasks, running)
        return tasks / (_await_end(player, ran.last, tasks, running) - ran.first)


def run_in_bulk(folder: Path, *, contender: str, place: Place, tasks: int) -> float:
    """Tasks a second from the first submit in bulk of another process to the last body."""
    player = _enter(folder, contender, place)
    return _run(player, folder, Producers(1, _submit_in_bulk, contender, tasks), tasks)


def run_one_by_one(folder: Path, *, contender: str, place: Place, tasks: int, producers: int) -> float:
    """Tasks a second from the first submit of any producer to the last body."""
    player = _enter(folder, contender, place)
    return _run(player, folder, Producers(producers, _submit_one_by_one, contender, tasks // producers), tasks)


def time_latency(folder: Path, *, contender: str, place: Place, tasks: int) -> tuple[float, float]:
    """Milliseconds from the call that submits to the start of the body, p50 and p99; one task at a time."""
    player = _enter(folder, contender, place)
    bell = Bell(folder)
    times: list[float] = []
    with _working(player, folder) as running:
        ring = partial(bell.wait, running)
        player.submit("stamp", paced(ring, [], WARM))
        player.submit("stamp", paced(ring, times, tasks))
    return summarise(times)


def summarise(seconds: list[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    return statistics.median(seconds) * 1000, statistics.quantiles(seconds, n=100, method="inclusive")[98] * 1000


def _enter(folder: Path, contender: str, place: Place) -> Contender:
    announce(Place(str(folder), place.redis, place.postgres))
    player = find_contender(contender)
    player.prepare()
    return player


def _run(player: Contender, folder: Path, crowd: Producers, tasks: int) -> float:
    crowd.start()
    with _working(player, folder) as running:
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


@contextmanager
def _working(player: Contender, folder: Path) -> Iterator[Running]:
    """The worker, alive while the context is; what it wrote is told when something goes wrong."""
    log = folder / "worker.log"
    with log.open("ab") as file:
        worker = subprocess.Popen(player.worker, stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=ROOT)
    try:
        yield partial(_runs, worker)
    except Exception as error:
        error.add_note("\n".join(log.read_text(errors="replace").splitlines()[-20:]))
        raise
    finally:
        _stop(worker)


def _runs(worker: subprocess.Popen[bytes]) -> bool:
    return worker.poll() is None


def _stop(worker: subprocess.Popen[bytes]) -> None:
    """Ask it to end, so that what it has started ends as well; one that does not follow is killed."""
    worker.terminate()
    try:
        worker.wait(_STOP)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
