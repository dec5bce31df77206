"""What a durable hand-over between two processes costs at least: a commit, a wake-up, and a commit of the other.

The first process stores a task, on disk, and wakes the second; that one claims it, on disk, and its body begins.
"""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import apsw

from bench.field import WARM, paced, summarise
from bench.machine import time_fsync
from bench.peers.raw_sqlite import open_connection
from bench.peers.settings import RawSettings
from bench.place import Place, announce
from bench.tally import Bell, stamp

_SPEC = b'{"function":"package.module:function","args":[]}'
_BUSY = 10_000


def time_wakeup(folder: Path, *, tasks: int, settings: RawSettings) -> tuple[float, float]:
    """Milliseconds from the first commit to the body in the other process, p50 and p99; one task at a time."""
    announce(Place(str(folder)))
    connection = _open(folder, settings)
    connection.execute("CREATE TABLE task (id INTEGER PRIMARY KEY, status INTEGER, spec BLOB)")
    bell = Bell(folder)
    times: list[float] = []
    with _worker(folder, settings) as (wake, is_alive):
        for _ in paced(partial(bell.wait, is_alive), times, WARM + tasks):
            connection.execute("INSERT INTO task (status, spec) VALUES (-2, ?)", (_SPEC,))
            wake.send(b"!")
    return summarise(times[WARM:])


def time_syncs(folder: Path, *, times: int) -> float:
    """The median milliseconds of an append made durable."""
    return time_fsync(folder, times) * 1000


def _open(folder: Path, settings: RawSettings) -> apsw.Connection:
    connection = open_connection(folder / "raw.db", settings)
    connection.set_busy_timeout(_BUSY)
    return connection


@contextmanager
def _worker(folder: Path, settings: RawSettings) -> Iterator[tuple[socket.socket, Callable[[], bool]]]:
    wake, woken = socket.socketpair()
    process = multiprocessing.get_context("spawn").Process(target=_work, args=(woken, folder, settings), daemon=True)
    process.start()
    woken.close()
    try:
        yield wake, process.is_alive
    finally:
        wake.close()
        process.join()


def _work(woken: socket.socket, folder: Path, settings: RawSettings) -> None:
    connection = _open(folder, settings)
    while woken.recv(1):
        connection.execute("UPDATE task SET status = 0 WHERE id = (SELECT max(id) FROM task)")
        stamp()
