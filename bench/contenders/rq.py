"""RQ on Redis: its `SimpleWorker`, which runs a job in the worker's process, in a pool."""

from __future__ import annotations

from collections.abc import Iterable

from rq import Queue

from bench import tally
from bench.contender import Body, Contender, chunks, python
from bench.contenders.redis import connect, empty, socket_url
from bench.peers.settings import RqSettings

_SETTINGS = RqSettings()
_TASKS = {"note": tally.note, "stamp": tally.stamp}


def submit(body: Body, turns: Iterable[object]) -> None:
    with connect() as client:
        queue, task = Queue(connection=client), _TASKS[body]
        for _ in turns:
            queue.enqueue(task, result_ttl=_SETTINGS.result_ttl)


def submit_in_bulk(tasks: int) -> None:
    with connect() as client:
        queue = Queue(connection=client)
        for size in chunks(tasks):
            queue.enqueue_many([Queue.prepare_data(tally.note, result_ttl=_SETTINGS.result_ttl) for _ in range(size)])


CONTENDER = Contender(
    worker=python(
        "rq.cli",
        "worker-pool",
        "--num-workers",
        str(_SETTINGS.workers),
        "--worker-class",
        _SETTINGS.worker_class,
        "--url",
        socket_url(),
        "--quiet",
        "default",
    ),
    submit=submit,
    prepare=empty,
    submit_in_bulk=submit_in_bulk,
)
