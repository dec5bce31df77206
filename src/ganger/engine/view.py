"""The reading half of the engine, for one look: it starts nothing and needs no event loop to run on."""

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ganger.core.clock import Clock
from ganger.core.ids import QueueId, TaskId
from ganger.core.lease import Lease
from ganger.core.queue import Counts
from ganger.core.task import Task
from ganger.engine import family, inspect, output
from ganger.engine.limits import Limits
from ganger.engine.nodes import Nodes
from ganger.engine.output import Part, Places, Wish
from ganger.engine.queues import Queues
from ganger.engine.store import Look, Page, Query, Store

T = TypeVar("T")

_LIMITS = Limits()


class View:
    """What the engine says of a store that answers at once. The operations are those of `Engine`, under their terms."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.queues = Queues(store, clock, _LIMITS)
        self.nodes = Nodes(store, _LIMITS)
        self._places = Places(store, None, _LIMITS)

    async def tasks(self, ids: Sequence[TaskId]) -> list[Task | None]:
        return await self.store.tasks(inspect.check_ids(ids, _LIMITS))

    async def find(self, query: Query) -> Page:
        return await inspect.find(self.store, query, _LIMITS)

    async def look(self, task: TaskId, most: int = 100) -> Look:
        return await self.store.look(task, most)

    async def read_data(self, task: TaskId, key: str, start: int = 0, most: int = 65_536) -> Part:
        """PayloadTooLarge for a value that is a blob: one look opens none."""
        return await output.read(self._places, Wish(task, key, start, most))

    async def counts(self) -> tuple[list[Counts], dict[QueueId, dict[str, int]]]:
        return await self.store.counts()

    async def family(self, lease: Lease, most: int = 100) -> family.Relatives:
        return await family.read_family(self.store, lease, most)


def finish(work: Coroutine[Any, Any, T]) -> T:
    """What the work returns, if it waits for nothing; RuntimeError if it does."""
    try:
        work.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    work.close()
    raise RuntimeError("a look at a store waits for nothing")
