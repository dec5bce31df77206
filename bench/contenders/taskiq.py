"""taskiq on Redis: its list broker, async tasks, no results."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import uvloop
from taskiq_redis import ListQueueBroker

from bench import tally
from bench.contender import Body, Contender, python
from bench.contenders.redis import empty, socket_url
from bench.peers.settings import TaskiqSettings

_SETTINGS = TaskiqSettings()

broker = ListQueueBroker(socket_url())
_TASKS = {
    "note": broker.task(task_name="note")(tally.note_async),
    "stamp": broker.task(task_name="stamp")(tally.stamp_async),
}


def submit(body: Body, turns: Iterable[object]) -> None:
    logging.getLogger("taskiq").setLevel(logging.ERROR)
    uvloop.run(_submit(body, turns))


async def _submit(body: Body, turns: Iterable[object]) -> None:
    await broker.startup()
    task = _TASKS[body]
    for _ in turns:
        await task.kiq()
    await broker.shutdown()


CONTENDER = Contender(
    worker=python(
        "taskiq",
        "worker",
        "bench.contenders.taskiq:broker",
        "--workers",
        str(_SETTINGS.workers),
        "--max-async-tasks",
        str(_SETTINGS.max_async_tasks),
        "--max-prefetch",
        str(_SETTINGS.max_prefetch),
        "--ack-type",
        _SETTINGS.ack_type,
        "--no-parse",
        "--log-level",
        "ERROR",
    ),
    submit=submit,
    prepare=empty,
)
