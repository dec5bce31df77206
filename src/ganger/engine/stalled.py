"""Which held tasks keep others from ever ending by themselves: they, their parents, their members, and so on up.

A task that waits for a held one is not held itself, and may wait for ever all the same. It is taken to be stalled only
if nothing that it waits for goes on: while anything does, its end may still come another way. Each look is at another
instant, so whatever does not add up is taken to go on, and whoever asks looks again when something has happened.
"""

from collections.abc import Iterable
from typing import Final

from ganger.core.errors import TaskNotFound
from ganger.core.ids import TaskId
from ganger.core.state import Status, is_final
from ganger.core.task import Kind, Task
from ganger.engine.store import Query, Store

_MOST: Final = 500
"""So many tasks are asked in each layer what they wait for; those beyond are taken to wait like these."""

_STILL: Final = (Status.HELD, Status.BLOCKED)
_ON_ITS_WAY: Final = (Status.DELAYED, Status.QUEUED, Status.CLAIMED, Status.RUNNING)


async def find_held(store: Store, ids: Iterable[TaskId]) -> list[TaskId]:
    """The held tasks that these wait for, or are, if nothing that they wait for goes on by itself; else none."""
    seen = set(ids)
    layer = await _find_open(store, seen) if await _is_any_held(store) else []
    held: list[TaskId] = []
    while layer:
        if any(task.status not in _STILL for task in layer):
            return []
        held += [task.id for task in layer if task.status == Status.HELD]
        above = await _find_above(store, [task for task in layer if task.status == Status.BLOCKED][:_MOST])
        if above is None:
            return []
        layer = [task for number, task in above.items() if number not in seen]
        seen.update(above)
    return held


async def _is_any_held(store: Store) -> bool:
    counts, _ = await store.counts()
    return any(count.by_status.get(Status.HELD, 0) for count in counts)


async def _find_open(store: Store, ids: Iterable[TaskId]) -> list[Task]:
    return [task for task in await store.tasks(list(ids)) if task is not None and not is_final(task.status)]


async def _find_above(store: Store, blocked: Iterable[Task]) -> dict[TaskId, Task] | None:
    """What these wait for; None if one of them goes on by itself."""
    above: dict[TaskId, Task] = {}
    for task in blocked:
        awaited = await _find_awaited(store, task)
        if not awaited:
            return None
        above.update((one.id, one) for one in awaited)
    return above


async def _find_awaited(store: Store, task: Task) -> list[Task]:
    """The parents and members that a task waits for; none if that is not all that it waits for."""
    try:
        family = (await store.look(task.id, _MOST)).family
    except TaskNotFound:
        return []
    awaited = await _find_open(store, [parent for parent, _ in family.parents])
    if task.kind == Kind.GROUP:
        awaited += await _find_members(store, task.id)
    return awaited if min(task.waits, _MOST) <= len(awaited) else []


async def _find_members(store: Store, group: TaskId) -> list[Task]:
    """One that is on its way tells enough; else those that are not."""
    moving = await store.find(Query(group=group, statuses=tuple(map(int, _ON_ITS_WAY)), most=1))
    if moving.tasks:
        return moving.tasks
    return (await store.find(Query(group=group, statuses=tuple(map(int, _STILL)), most=_MOST))).tasks
