"""Concurrency keys: of each key at most as many tasks are ready as may still be leased.

A claim then needs no look at keys at all, and a million tasks of a full key cost it nothing: they are parked, outside
the ready index. Whenever a task of a key comes, goes or changes, the best of those that wait take the free places.
"""

from array import array

import apsw

from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step


def refill(step: Step) -> None:
    """Let the best tasks of every key that changed in this step be ready, and no more of them than may run."""
    for queue, key in step.keys:
        limit = step.shelf.queues[queue].queue.policy.max_per_key
        if limit is None:
            _unpark_all(step, queue, key)
        else:
            _choose(step, queue, key, limit)
    step.keys.clear()


def _unpark_all(step: Step, queue: int, key: str) -> None:
    for (lane,) in list(step.run(Q.keyed_parked_all, (queue, key))):
        step.readied(queue, lane)


def _choose(step: Step, queue: int, key: str, limit: int) -> None:
    ((leased,),) = step.run(Q.keyed_leased, (queue, key))
    room = max(0, limit - leased)
    ready = list(step.run(Q.keyed_ready, (queue, key)))
    parked = list(step.run(Q.keyed_parked, (queue, key, room)))
    best = set(sorted(ready + parked)[:room])
    if worse := [row[-1] for row in ready if row not in best]:
        step.run(Q.park, (apsw.carray(array("q", worse)),))
    if better := [row[-1] for row in parked if row in best]:
        for (lane,) in list(step.run(Q.unpark, (apsw.carray(array("q", better)),))):
            step.readied(queue, lane)
