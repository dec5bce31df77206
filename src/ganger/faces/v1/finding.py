"""How tasks are found: by what they have in common, in a bounded number of walks."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ganger.core.graph import Edge
from ganger.core.ids import Position
from ganger.core.state import Status
from ganger.core.task import Task
from ganger.engine.store import Query
from ganger.faces.v1.backend import Backend
from ganger.wire.v1.words import read_id, read_states, read_type

FILTERS: Final = ("type", "state", "queue", "parent", "group", "key")
_WALKS: Final = 50


class Found(NamedTuple):
    """Some tasks with the edges above them, and where the rest begins."""

    tasks: list[tuple[Task, tuple[Edge, ...]]]
    next: Position | None


class Finder:
    """Finds tasks of a store."""

    def __init__(self, backend: Backend) -> None:
        self._engine = backend.engine

    async def read_filters(self, asked: Mapping[str, str]) -> Query:
        state, queue = asked.get("state"), asked.get("queue")
        return Query(
            queue=None if queue is None else (await self._engine.queues.named(queue)).id,
            statuses=None if state is None else await self._codes(state),
            kind=read_type(asked["type"]) if "type" in asked else None,
            group=read_id(asked["group"], "group") if "group" in asked else None,
            key=asked.get("key"),
            parent=read_id(asked["parent"], "parent") if "parent" in asked else None,
        )

    async def _codes(self, states: str) -> tuple[int, ...]:
        """All stored codes that these states mean: a failure may have a code of its own."""
        statuses = read_states(states)
        codes = {int(status) for status in statuses}
        if Status.FAILED in statuses:
            counts, _ = await self._engine.counts()
            codes |= {code for each in counts for code in each.by_status if code > Status.FAILED}
        return tuple(sorted(codes))

    async def gather(self, query: Query, most: int) -> Found:
        """As many as fit on a page, in a bounded number of walks."""
        found = Found([], query.after)
        for _ in range(_WALKS):
            page = await self._engine.find(query._replace(after=found.next, most=most - len(found.tasks)))
            parents = page.parents or ((),) * len(page.tasks)
            found = Found([*found.tasks, *zip(page.tasks, parents, strict=True)], page.next)
            if page.next is None or len(found.tasks) == most:
                break
        return found
