"""Dramatiq on Redis: its default middleware without what is not used, several processes with threads."""

from __future__ import annotations

from collections.abc import Iterable

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench import tally
from bench.contender import Body, Contender, python
from bench.contenders.redis import empty, socket_url
from bench.peers.settings import DramatiqSettings

_SETTINGS = DramatiqSettings()

broker = RedisBroker(url=socket_url())
dramatiq.set_broker(broker)
_TASKS = {
    "note": dramatiq.actor(tally.note, actor_name="note"),
    "stamp": dramatiq.actor(tally.stamp, actor_name="stamp"),
}


def submit(body: Body, turns: Iterable[object]) -> None:
    task = _TASKS[body]
    for _ in turns:
        task.send()


_SIZE = ("--processes", str(_SETTINGS.processes), "--threads", str(_SETTINGS.threads))

CONTENDER = Contender(
    ("env", f"dramatiq_queue_prefetch={_SETTINGS.prefetch}", *python("dramatiq", "bench.contenders.dramatiq", *_SIZE)),
    submit,
    empty,
)
