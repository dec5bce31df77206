"""Everything below one task, kept true by the events: who follows a graph sees only what happens in it.

The members are found once, from the root down, and from then on each event is asked for new ones: tasks that were
submitted below a member, and tasks that an edit put there. One that an edit took away stays a member, since what
happens to it was begun here. The number of members is bounded; a larger graph is followed by its queue.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ganger.core.errors import BadInput, TaskNotFound
from ganger.core.event import Event, Fact
from ganger.core.graph import Edge
from ganger.core.ids import Position, TaskId
from ganger.engine.store import Query, Store

MOST: Final = 100_000
_PAGE: Final = 1_000


class Descent:
    """A root and all tasks below it. Uses: tasks, find."""

    def __init__(self, store: Store, root: TaskId, most: int = MOST) -> None:
        self.root = root
        self._store = store
        self._most = most
        self.members: set[TaskId] = set()

    async def open(self) -> None:
        """Find the members; TaskNotFound without a root, BadInput if they are too many."""
        if (await self._store.tasks([self.root]))[0] is None:
            raise TaskNotFound(f"there is no task {self.root}", task=self.root)
        await self._adopt([self.root])

    async def _adopt(self, tasks: Iterable[TaskId]) -> None:
        """Take these in, with all below them."""
        frontier = [task for task in tasks if task not in self.members]
        while frontier:
            self.members.update(frontier)
            if len(self.members) > self._most:
                raise BadInput(f"more than {self._most} tasks are below task {self.root}: follow their queue instead")
            below = [child for task in frontier for child in await self._children(task)]
            frontier = [task for task in dict.fromkeys(below) if task not in self.members]

    async def _children(self, task: TaskId) -> list[TaskId]:
        found: list[TaskId] = []
        query: Query | None = Query(parent=task, most=_PAGE)
        while query is not None:
            page = await self._store.find(query)
            found += [child.id for child in page.tasks]
            query = None if page.next is None else query._replace(after=page.next)
        return found

    async def narrow(self, event: Event) -> Event | None:
        """The event as far as it is about members; None if it is not."""
        if event.fact in (Fact.SUBMITTED, Fact.EDITED) and event.entries:
            await self._look_for_new(event)
        entries = tuple(entry for entry in event.entries if entry.task in self.members)
        return event._replace(entries=entries) if entries else None

    async def _look_for_new(self, event: Event) -> None:
        strangers = [entry.task for entry in event.entries if entry.task not in self.members]
        for place in range(0, len(strangers), _PAGE):
            some = strangers[place : place + _PAGE]
            await self._adopt(task for task, parents in await self.find_parents(some) if self._is_below(parents))

    def _is_below(self, parents: Sequence[Edge]) -> bool:
        return any(edge.parent in self.members for edge in parents)

    async def find_parents(self, tasks: Sequence[TaskId]) -> list[tuple[TaskId, Sequence[Edge]]]:
        """The edges above these tasks, which lie close together: they are read as pages of all tasks."""
        positions = [task.position for task in await self._store.tasks(tasks) if task is not None]
        found: list[tuple[TaskId, Sequence[Edge]]] = []
        if not positions:
            return found
        after, wanted = Position(min(positions) - 1), set(tasks)
        while after < max(positions):
            page = await self._store.find(Query(after=after, most=_PAGE, with_parents=True))
            pairs = zip(page.tasks, page.parents, strict=True)
            found += [(task.id, parents) for task, parents in pairs if task.id in wanted]
            if page.next is None:
                break
            after = page.next
        return found
