"""Dramatiq on Redis: its default middleware without what is not used, several processes with threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench import tally
from bench.contender import Body, Contender, python
from bench.contenders.redis import empty, socket_url
from bench.peers.settings import DramatiqSettings
from bench.place import find_place

_SETTINGS = DramatiqSettings()

broker = RedisBroker(url=socket_url())
dramatiq.set_broker(broker)
_TASKS = {
    "note": dramatiq.actor(tally.note, actor_name="note"),
    "stamp": dramatiq.actor(tally.stamp, actor_name="stamp"),
}
_WORK = dramatiq.actor(tally.work, actor_name="work")


def submit(body: Body, turns: Iterable[object]) -> None:
    task = _TASKS[body]
    for _ in turns:
        task.send()


def send(batches: Iterable[Sequence[float]]) -> None:
    """One by one: it has no call for many."""
    for moments in batches:
        for moment in moments:
            _WORK.send(moment)


_THREADS = find_place().workers or _SETTINGS.threads
_SIZE = ("--processes", str(_SETTINGS.processes), "--threads", str(_THREADS))

CONTENDER = Contender(
    ("env", f"dramatiq_queue_prefetch={_SETTINGS.prefetch}", *python("dramatiq", "bench.contenders.dramatiq", *_SIZE)),
    submit,
    empty,
    send=send,
)
