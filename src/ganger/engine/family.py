"""What an attempt may see of others: the parents and the children of its task, and itself."""

from collections.abc import Sequence
from typing import NamedTuple

from ganger.core.errors import StaleLease
from ganger.core.ids import TaskId
from ganger.core.lease import Lease
from ganger.core.state import LEASED
from ganger.core.task import Task
from ganger.engine.store import Store


class Relative(NamedTuple):
    """A task of a family, and what the child asks of the parent: one of `core.graph.On`."""

    task: Task
    on: str


class Relatives(NamedTuple):
    """A task with those before it and those behind it, as far as they are still there."""

    itself: Task
    parents: list[Relative]
    children: list[Relative]


async def read_family(store: Store, lease: Lease, most: int) -> Relatives:
    """The family of the task, at most so many of each side, while the store has not taken the lease back."""
    look = await store.look(lease.task, most)
    if look.task.fence != lease.fence or look.task.status not in LEASED:
        raise StaleLease(f"the lease of task {lease.task} has ended: end this attempt", task=lease.task)
    parents, children = look.family
    return Relatives(look.task, await _relate(store, parents), await _relate(store, children))


async def _relate(store: Store, edges: Sequence[tuple[TaskId, str]]) -> list[Relative]:
    found = await store.tasks([task for task, _ in edges])
    return [Relative(task, on) for task, (_, on) in zip(found, edges, strict=True) if task is not None]
