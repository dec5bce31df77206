"""A queue that is to go and holds much is emptied first, some tasks at a time: one step would hold up everybody.

How many go at a time is found out: a step is to last some 50 ms, which is a thousand tasks in a file, and a few in a
database that is asked for each of them.

The queue is paused before that, so that nobody claims what goes. Should the process die in between, it is there,
paused, with what is left in it; whoever deletes it again goes on. A task that was leased meanwhile refuses the end of
it, as it does with a small queue.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

from ganger.core.clock import Clock
from ganger.core.errors import NotFound
from ganger.core.ids import QueueId, TaskId
from ganger.core.state import WAITING, is_final, move
from ganger.engine.store import Edit, Edits, Exchange, Query, Store

_FEW: Final = 20
"""So many go first, and where a server has them so many are much already."""
_MANY: Final = 1_000
_LONG: Final = 50
"""Milliseconds for which others may have to wait for a step."""


async def may_empty(store: Store, queue: QueueId, most: int, *, drop: bool) -> bool:
    """Does it hold more than so much, and nothing that keeps it from being deleted?"""
    most = min(most, _FEW) if store.capabilities.distant else most
    tallies, _ = await store.counts()
    held = {status: n for tally in tallies if tally.queue == queue for status, n in tally.by_status.items() if n}
    return sum(held.values()) > most and all(is_final(status) or (drop and status in WAITING) for status in held)


async def empty(store: Store, queue: QueueId, clock: Clock) -> None:
    """Cancel what waits, so that its children learn of it, and remove everything."""
    waiting = tuple(sorted(int(status) for status in WAITING))
    async for ids in _steps(store, Query(queue, waiting), clock):
        moves = tuple(move(task, "cancel")._replace(reason="its queue was deleted") for task in ids)
        await store.exchange(Exchange(moves))
    async for ids in _steps(store, Query(queue), clock):
        await _remove(store, ids)


async def _steps(store: Store, query: Query, clock: Clock) -> AsyncIterator[list[TaskId]]:
    """Tasks by the step, as many as the step before has shown to be few enough."""
    after, most = None, _FEW
    while True:
        page = await store.find(query._replace(after=after, most=most))
        begun = clock.now()
        if page.tasks:
            yield [task.id for task in page.tasks]
        if page.next is None:
            return
        after, most = page.next, _measure(most, clock.now() - begun)


def _measure(size: int, took: int) -> int:
    if took > _LONG:
        return max(1, size // 2)
    return min(_MANY, size * 2) if took * 2 < _LONG else size


async def _remove(store: Store, ids: Sequence[TaskId]) -> None:
    try:
        await store.edit(Edits(tuple(Edit(task, remove=True) for task in ids)))
    except NotFound:
        # Some went by themselves, because they were kept long enough.
        for task in ids:
            with suppress(NotFound):
                await store.edit(Edits((Edit(task, remove=True),)))
