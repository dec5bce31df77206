"""What a live node leases, it has in hand: leases that break this, found from outside.

A node's beat names what it has in its hands. A task that was leased to it some seconds before that, and that the beat
does not name, is run by nobody, and the beats keep its lease alive. The node itself gives such a task back within
seconds. What is found here is what it did not: it is told, by upkeep and by the doctor.
"""

from typing import Final, NamedTuple

from ganger.core.node import Node
from ganger.core.state import LEASED
from ganger.core.task import Task
from ganger.engine.store import Query, Store

PATIENCE: Final = 5_000
"""Milliseconds between a claim and the first beat that must name it."""
_PAGE: Final = 1_000


class Unheld(NamedTuple):
    """A task, and the node that leases it and has it not in hand."""

    task: Task
    node: Node


async def find_unheld(store: Store) -> list[Unheld]:
    """Uses: directory, find."""
    here = [node for node in (await store.directory()).nodes if node.here]
    return [Unheld(task, node) for node in here for task in await _find_of(store, node)]


async def _find_of(store: Store, node: Node) -> list[Task]:
    named = None if node.vitals is None else node.vitals.hands
    if named is None:
        return []
    query: Query | None = Query(statuses=tuple(map(int, LEASED)), holder=node.id, most=_PAGE)
    found: list[Task] = []
    while query is not None:
        page = await store.find(query)
        found += page.tasks
        query = None if page.next is None else query._replace(after=page.next)
    known = frozenset(named)
    return [task for task in found if task.id not in known and node.seen - task.modified > PATIENCE]
