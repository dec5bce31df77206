"""Concurrency keys: of each key at most as many tasks are ready as may still be leased.

A claim then needs no look at keys at all, and a million tasks of a full key cost it nothing: they are parked, outside
the ready index. Whenever a task of a key comes, goes or changes, the best of those that wait take the free places.
"""

from ganger.engine.stores.postgres.placing import enter, leave
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.step import Step


async def refill(step: Step) -> None:
    """Let the best tasks of every key that changed in this step be ready, and no more of them than may run."""
    if step.keys:
        step.run_alone()
    for queue, key in sorted(step.keys):
        limit = step.shelf.queues[queue].policy.max_per_key
        if limit is None:
            await step.run(Q.keyed_free, queue, key)
        else:
            await _choose(step, queue, key, limit)
        step.woken.add(queue)
    step.keys.clear()


async def _choose(step: Step, queue: int, key: str, limit: int) -> None:
    room = max(0, limit - await step.one(Q.keyed_leased, queue, key))
    ready = [tuple(row) for row in await step.run(Q.keyed_ready, queue, key)]
    parked = [tuple(row) for row in await step.run(Q.keyed_parked, queue, key, room)]
    best = set(sorted(ready + parked)[:room])
    if worse := [row[-1] for row in ready if row not in best]:
        await leave(step, worse)
        await step.run(Q.park, True, worse)
    if better := [row[-1] for row in parked if row in best]:
        await step.run(Q.park, False, better)
        await enter(step, better)
