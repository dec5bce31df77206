"""How the edges of a submission are found and stored."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ganger.core.errors import UnknownParent
from ganger.core.graph import Edge, holds, lost_reason
from ganger.core.ids import TaskId
from ganger.core.state import is_final
from ganger.engine.store import Past
from ganger.engine.stores.postgres.queries import Q
from ganger.engine.stores.postgres.rows import columns
from ganger.engine.stores.postgres.step import Step


class Parent(NamedTuple):
    """What a child needs to know of a task that has ended."""

    status: int
    branch: bool
    reason: str | None


class Ties(NamedTuple):
    """Edges that a task has: undecided ones (`waits`), those that hold, and why one never will, if so."""

    waits: int = 0
    held: int = 0
    dead: str | None = None


class Links:
    """The edges of one submission. `kids` counts the children that each task gets."""

    def __init__(self, step: Step, ids: list[TaskId], existing: set[int]) -> None:
        self.step = step
        self.ids = ids
        self.fresh = {number for index, number in enumerate(ids) if index not in existing}
        self.kids: Counter[int] = Counter()
        self._ended: dict[int, Parent] = {}
        self._edges: list[tuple[int, int, str]] = []

    async def learn(self, families: list[tuple[Edge, ...]], pasts: Mapping[TaskId, Past]) -> None:
        """Look at the parents of those tasks that have any: one that is not there is refused.

        `pasts`: those of the submission that ended elsewhere.
        """
        named = [self._distinct(parents) for parents in families]
        self.kids = Counter(parent for edges in named for parent in edges)
        # An id that this very submission gives names nobody yet.
        guessed = {parent for parents in families for parent, _ in parents if parent > 0} & set(self.fresh)
        elders = [parent for parent in self.kids if parent not in self.fresh or parent in guessed]
        rows = await self.step.run(Q.parents_read, elders) if elders else []
        if len(rows) < len(elders):
            first = min(set(elders) - {row[0] for row in rows})
            raise UnknownParent(f"there is no task {first} to wait for; it may have been removed", task=first)
        self._ended = {row[0]: Parent(*row[1:]) for row in rows if is_final(row[1])}
        self._ended |= {number: Parent(past.status, past.branch, past.reason) for number, past in pasts.items()}

    def tie(self, child: TaskId, parents: tuple[Edge, ...]) -> Ties:
        """Keep edges to be stored, and see what is known of them."""
        waits, held, dead = 0, 0, None
        for parent, on in self._distinct(parents).items():
            self._edges.append((parent, child, on))
            known = self._ended.get(parent)
            if known is None:
                waits += 1
            elif holds(on, known.status, known.branch):
                held += 1
            else:
                dead = dead or lost_reason(on, parent, known.status, known.reason)
        return Ties(waits, held, dead)

    async def store(self) -> None:
        """Store what was tied; parents that were there before have more children now."""
        if not self._edges:
            return
        await self.step.run(Q.edges_put, *columns(self._edges, 3))
        elders = [(parent, n) for parent, n in self.kids.items() if parent not in self.fresh]
        if elders:
            await self.step.run(Q.kids_add, *columns(elders, 2))

    def resolve(self, reference: int) -> TaskId:
        return TaskId(reference) if reference > 0 else self.ids[-reference - 1]

    def _distinct(self, parents: tuple[Edge, ...]) -> dict[int, str]:
        """Edges by id. Two may lead to one task, where a key gave one that was there: the last of them counts."""
        return {self.resolve(parent): on for parent, on in parents}
