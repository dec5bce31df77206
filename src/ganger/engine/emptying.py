"""A queue that is to go and holds much is emptied first, a thousand tasks at a time: one step would hold up everybody.

It is paused before that, so that nobody claims what goes. Should the process die in between, the queue is there,
paused, with what is left in it; whoever deletes it again goes on. A task that was leased meanwhile refuses the end of
it, as it does with a small queue.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

from ganger.core.errors import NotFound
from ganger.core.ids import QueueId, TaskId
from ganger.core.state import WAITING, is_final, move
from ganger.engine.store import Edit, Edits, Exchange, Query, Store

_STEP: Final = 1_000


async def may_empty(store: Store, queue: QueueId, most: int, *, drop: bool) -> bool:
    """Does it hold more than so much, and nothing that keeps it from being deleted?"""
    tallies, _ = await store.counts()
    held = {status: n for tally in tallies if tally.queue == queue for status, n in tally.by_status.items() if n}
    return sum(held.values()) > most and all(is_final(status) or (drop and status in WAITING) for status in held)


async def empty(store: Store, queue: QueueId) -> None:
    """Cancel what waits, so that its children learn of it, and remove everything."""
    waiting = tuple(sorted(int(status) for status in WAITING))
    async for ids in _steps(store, Query(queue, waiting, most=_STEP)):
        moves = tuple(move(task, "cancel")._replace(reason="its queue was deleted") for task in ids)
        await store.exchange(Exchange(moves))
    async for ids in _steps(store, Query(queue, most=_STEP)):
        await _remove(store, ids)


async def _steps(store: Store, query: Query) -> AsyncIterator[list[TaskId]]:
    after = None
    while True:
        page = await store.find(query._replace(after=after))
        if page.tasks:
            yield [task.id for task in page.tasks]
        if page.next is None:
            return
        after = page.next


async def _remove(store: Store, ids: Sequence[TaskId]) -> None:
    try:
        await store.edit(Edits(tuple(Edit(task, remove=True) for task in ids)))
    except NotFound:
        # Some went by themselves, because they were kept long enough.
        for task in ids:
            with suppress(NotFound):
                await store.edit(Edits((Edit(task, remove=True),)))
