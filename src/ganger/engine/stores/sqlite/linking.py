"""How the edges of a submission are stored: together where many lead from one task, or to one."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import apsw

from ganger.core.errors import UnknownParent
from ganger.core.graph import Edge, holds, lost_reason
from ganger.core.ids import TaskId
from ganger.engine.store import Past
from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step

T = TypeVar("T")
_MANY: Final = 16
"""So many edges are worth a statement of their own."""


class Parent(NamedTuple):
    """What a child needs to know of a task that is already there."""

    status: int
    branch: bool
    reason: str | None


class Ties(NamedTuple):
    """Edges that a task has: undecided ones (`waits`), those that hold, and why one never will, if so.

    `broods` gather the children that have them.
    """

    parents: tuple[Edge, ...]
    broods: "list[array[int]]"
    waits: int
    held: int
    dead: str | None


_WAITS_FOR_ONE: Final = Ties((), [], 1, 0, None)


class Links:
    """The edges of one submission: `families` are the parents of those of its tasks that have any.

    `pasts` are those of its tasks that ended elsewhere. `kids` counts the children that each task gets.
    """

    def __init__(
        self,
        step: Step,
        ids: list[TaskId],
        existing: set[int],
        families: list[tuple[Edge, ...]],
        pasts: Mapping[TaskId, Past],
    ) -> None:
        self.step = step
        self.ids = ids
        self.existing = existing
        self._resolved: tuple[tuple[Edge, ...], dict[int, str]] = ((), {})
        self._elders: list[array[int]] = []
        self.parents: dict[int, Parent] = {
            number: Parent(past.status, past.branch, past.reason) for number, past in pasts.items()
        }
        self.kids: dict[int, int] = {}
        if families:
            self._look_at(families, step.shelf.next_task - len(ids))
        self._ties = Ties((), [], 0, 0, None)
        self._single: tuple[Edge, ...] = ()
        self._few: list[tuple[int, int, str]] = []
        self._gathered: dict[tuple[int, str], array[int]] = {}
        self._joins: list[tuple[array[int], str, array[int]]] = []

    def _look_at(self, families: list[tuple[Edge, ...]], first: int) -> None:
        alike = _count_alike(families)
        self.parents = self._read_parents([parents for parents, _ in alike], first) | self.parents
        self.kids = self._count_kids(alike, first)

    def store(self, first: int) -> None:
        """Store what was tied; parents that are not of this submission, whose ids begin at `first`, have more children.

        Raises UnknownParent if one of those is not there.
        """
        self._store_edges()
        born = range(first, first + len(self.ids))
        elders: dict[int, array[int]] = {}
        for parent, n in self.kids.items():
            if parent not in born:
                elders.setdefault(n, array("q")).append(parent)
        for n, parents in [*elders.items(), *((1, parents) for parents in self._elders)]:
            self.step.run(Q.kids_add_all, (n, apsw.carray(parents)))
            if self.step.session.connection.changes() < len(parents):
                self._refuse_missing(set(parents))

    def _count_kids(self, alike: list[tuple[tuple[Edge, ...], int]], first: int) -> dict[int, int]:
        """How many children each parent gets. The elders of a large join are set aside: each gets just this one."""
        kids: dict[int, int] = {}
        for parents, n in alike:
            edges = self._distinct(parents)
            if n == 1 and len(edges) >= _MANY and max(edges) < first:
                self._elders.append(array("q", edges))
            else:
                for parent in edges:
                    kids[parent] = kids.get(parent, 0) + n
        return kids

    def tie(self, child: TaskId, parents: tuple[Edge, ...]) -> Ties:
        """Keep edges to be stored, and see what is known of them. Many children may have the very same parents."""
        if parents is not self._ties.parents:
            if len(parents) == 1 and parents is not self._single and self._tie_one(child, parents[0]):
                self._single = parents
                return _WAITS_FOR_ONE
            self._ties = self._tie(parents)
        for brood in self._ties.broods:
            brood.append(child)
        return self._ties

    def _tie_one(self, child: TaskId, edge: Edge) -> bool:
        """The one edge of a link of a chain, if nothing is known of its parent yet."""
        reference, on = edge
        parent = reference if reference > 0 else self.ids[-reference - 1]
        if parent in self.parents:
            return False
        self._few.append((parent, child, on))
        return True

    def _tie(self, parents: tuple[Edge, ...]) -> Ties:
        edges = self._distinct(parents)
        held, dead, ended = 0, None, [parent for parent in edges if parent in self.parents] if self.parents else []
        for parent in ended:
            known, on = self.parents[parent], edges[parent]
            if holds(on, known.status, known.branch):
                held += 1
            else:
                dead = dead or lost_reason(on, parent, known.status, known.reason)
        return Ties(parents, self._broods(edges), len(edges) - len(ended), held, dead)

    def _broods(self, edges: dict[int, str]) -> "list[array[int]]":
        """Where the children of these edges are gathered; many parents of one child are a brood the other way round."""
        if len(edges) < _MANY:
            return [self._gathered.setdefault(edge, array("q")) for edge in edges.items()]
        asked = set(edges.values())
        joins = [(array("q", edges if len(asked) == 1 else _asking(edges, on)), on) for on in asked]
        children: array[int] = array("q")
        self._joins += [(found, on, children) for found, on in joins]
        return [children]

    def _store_edges(self) -> None:
        """Those of one parent, or of one child, by one statement where they are many."""
        run, few = self.step.run, self._few
        for (parent, on), children in self._gathered.items():
            if len(children) < _MANY:
                few += [(parent, child, on) for child in children]
            else:
                run(Q.edge_insert_brood, (parent, on, apsw.carray(children)))
        self._store_few(few)
        for parents, on, children in self._joins:
            for child in children:
                run(Q.edge_insert_join, (child, on, apsw.carray(parents)))

    def _store_few(self, edges: Iterable[tuple[int, int, str]]) -> None:
        """Those of a chain are many whose children are equally far from their parents."""
        apart: dict[tuple[int, str], array[int]] = {}
        for parent, child, on in edges:
            if (parents := apart.get((child - parent, on))) is None:
                parents = apart[child - parent, on] = array("q")
            parents.append(parent)
        few: list[tuple[int, int, str]] = []
        for (distance, on), parents in apart.items():
            if len(parents) < _MANY:
                few += [(parent, parent + distance, on) for parent in parents]
            else:
                self.step.run(Q.edge_insert_chain, (distance, on, apsw.carray(parents)))
        self.step.run_many(Q.edge_insert, few)

    def _distinct(self, parents: tuple[Edge, ...]) -> dict[int, str]:
        """Edges by id. Two may lead to one task, where a key gave one that was there: the last of them counts."""
        if len(parents) == 1:
            ((parent, on),) = parents
            return {parent if parent > 0 else self.ids[-parent - 1]: on}
        if parents is not self._resolved[0]:
            found: dict[int, str] = dict(parents)
            if found and min(found) < 0:
                found = {parent if parent > 0 else self.ids[-parent - 1]: on for parent, on in parents}
            self._resolved = parents, found
        return self._resolved[1]

    def resolve(self, reference: int) -> TaskId:
        return TaskId(reference) if reference > 0 else self.ids[-reference - 1]

    def _read_parents(self, families: Sequence[tuple[Edge, ...]], first: int) -> dict[int, Parent]:
        """The parents that have ended. Of a large join hardly any has."""
        wanted = {parent for parents in families for parent, _ in parents if parent > 0}
        if wanted and max(wanted) >= first:
            # An id that this very submission is about to give names nobody yet.
            self._refuse_missing(wanted)
        wanted |= {self.ids[index] for index in self.existing if self.ids[index] < first}
        if not wanted:
            return {}
        ids = array("q", wanted)
        rows = self.step.run(Q.parents_final, (apsw.carray(ids),))
        return {number: Parent(status, bool(branch), reason) for number, status, branch, reason in rows}

    def _refuse_missing(self, wanted: set[int]) -> None:
        known = {row[0] for row in self.step.run(Q.parents_read, (apsw.carray(array("q", wanted)),))}
        first = min(wanted - known)
        raise UnknownParent(f"there is no task {first} to wait for; it may have been removed", task=first)


def _count_alike(families: list[tuple[Edge, ...]]) -> list[tuple[tuple[Edge, ...], int]]:
    """Many children in a row may have the very same parents: these, and how many have them."""
    found: list[tuple[tuple[Edge, ...], int]] = []
    last, n = families[0] if families else (), 0
    for parents in families:
        if parents is not last:
            found.append((last, n))
            last, n = parents, 0
        n += 1
    return [*found, (last, n)] if n else []


def _asking(edges: dict[int, str], on: str) -> list[int]:
    return [parent for parent, asked in edges.items() if asked == on]


def count_each(things: Iterable[T]) -> dict[T, int]:
    """How often each of them comes. A Counter costs more than all the rest of a submission of one task."""
    found: dict[T, int] = {}
    for thing in things:
        found[thing] = found.get(thing, 0) + 1
    return found
