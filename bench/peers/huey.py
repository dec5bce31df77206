"""Huey on SQLite: no-op tasks, every write synced before it is acknowledged, a consumer with thread workers."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from huey import SqliteHuey

from bench.peers.settings import HueySettings
from bench.producers import Gate, Producers

_PATIENCE = 240.0


def open_huey(folder: Path, settings: HueySettings, *, fsync: bool) -> SqliteHuey:
    return SqliteHuey(
        "bench",
        filename=str(folder / "huey.db"),
        results=settings.results,
        fsync=fsync,
        journal_mode=settings.journal_mode,
        cache_mb=settings.cache_mb,
        timeout=settings.busy_timeout,
    )


def enqueue(folder: Path, *, tasks: int, producers: int, settings: HueySettings) -> float:
    """Tasks a second, enqueued one by one by that many processes in all."""
    huey = open_huey(folder, settings, fsync=settings.fsync)
    crowd = Producers(producers, produce, folder, settings, tasks // producers)
    crowd.start()
    began = crowd.release()
    ended = crowd.finish()
    if huey.pending_count() != tasks:
        raise RuntimeError(f"{huey.pending_count()} tasks are queued instead of {tasks}")
    return tasks / (ended - began)


def drain(folder: Path, *, tasks: int, settings: HueySettings) -> float:
    """Tasks a second from the start of a consumer on a full queue to the last body that ran."""
    fill(folder, tasks, settings)
    consumer = Consumer(folder, tasks, settings)
    began = time.perf_counter()
    consumer.start()
    return tasks / (consumer.finish() - began)


def run_one_by_one(folder: Path, *, tasks: int, producers: int, settings: HueySettings) -> float:
    """Tasks a second from the first enqueue of any producer to the last body that ran."""
    consumer = Consumer(folder, tasks, settings)
    crowd = Producers(producers, produce, folder, settings, tasks // producers)
    crowd.start()
    consumer.start()
    began = crowd.release()
    ended = consumer.finish()
    crowd.finish()
    return tasks / (ended - began)


def fill(folder: Path, tasks: int, settings: HueySettings) -> None:
    huey = open_huey(folder, settings, fsync=False)
    noop = huey.task(name="noop")(lambda: None)
    for _ in range(tasks):
        noop()
    huey.storage.close()


def produce(gate: Gate, _number: int, folder: Path, settings: HueySettings, tasks: int) -> None:
    huey = open_huey(folder, settings, fsync=settings.fsync)
    noop = huey.task(name="noop")(lambda: None)
    huey.pending_count()
    gate()
    for _ in range(tasks):
        noop()


class Consumer:
    """Huey's own consumer; a body only counts, and notes the moment of the last."""

    def __init__(self, folder: Path, tasks: int, settings: HueySettings) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        self._left = tasks
        self._ended = 0.0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._huey = open_huey(folder, settings, fsync=settings.fsync)
        self._huey.task(name="noop")(self._count)
        self._consumer = self._huey.create_consumer(
            workers=settings.workers,
            worker_type=settings.worker_type,
            periodic=False,
            initial_delay=settings.poll_delay,
            max_delay=settings.poll_delay,
            backoff=1.0,
            check_worker_health=False,
        )

    def _count(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._ended = time.perf_counter()
                self._over.set()

    def start(self) -> None:
        self._consumer.start()

    def finish(self) -> float:
        if not self._over.wait(_PATIENCE):
            raise TimeoutError(f"{self._left} tasks were left")
        self._consumer.stop(graceful=True)
        if self._huey.pending_count():
            raise RuntimeError("the queue is not empty")
        return self._ended
