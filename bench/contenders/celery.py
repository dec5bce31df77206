"""Celery on Redis: a prefork pool, short tasks prefetched, no results."""

from __future__ import annotations

from collections.abc import Iterable

from celery import Celery

from bench import tally
from bench.contender import Body, Contender, python
from bench.contenders.redis import empty
from bench.peers.settings import CelerySettings
from bench.place import find_place

_SETTINGS = CelerySettings()

app = Celery("bench", broker=f"redis+socket://{find_place().redis}")
app.conf.update(
    task_ignore_result=_SETTINGS.task_ignore_result,
    worker_prefetch_multiplier=_SETTINGS.worker_prefetch_multiplier,
    worker_enable_remote_control=_SETTINGS.worker_enable_remote_control,
    worker_disable_rate_limits=_SETTINGS.worker_disable_rate_limits,
)
_TASKS = {"note": app.task(name="note")(tally.note), "stamp": app.task(name="stamp")(tally.stamp)}


def submit(body: Body, turns: Iterable[object]) -> None:
    task = _TASKS[body]
    for _ in turns:
        task.delay()


_WORKER = ("worker", "--pool", _SETTINGS.pool, "--concurrency", str(_SETTINGS.concurrency), "--loglevel", "ERROR")
_QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")

CONTENDER = Contender(python("celery", "-A", "bench.contenders.celery", *_WORKER, *_QUIET), submit, empty)
