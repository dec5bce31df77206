"""Many rows at once: stored by one statement, read as one value.

A row by itself costs the way from Python into the database and back, and at each the other threads of the process may
take the interpreter: in a busy node a row waits for them as long as it takes to store a hundred. Tasks that are
submitted together mostly differ in nothing but their numbers, which follow each other, and their specs: such a *run* is
handed over as one list of specs. Many rows that are read come as one JSON text.
"""

from typing import Final, NamedTuple

import apsw

from ganger.engine.stores.sqlite.queries import Q
from ganger.engine.stores.sqlite.step import Step

_FEW: Final = 4
"""To store so many one by one costs no more than to hand over a list of them."""

_MOST: Final = 10_000


class Like(NamedTuple):
    """What the tasks of a run have in common. Rank is the task's number times `sign`."""

    queue: int
    lane: int
    status: int
    priority: int
    sign: int
    waits: int
    kids: int
    description: str | None


_NOTHING: Final = Like(0, 0, 0, 0, 0, 0, 0, None)


class Runs:
    """Stores tasks that are plain but for edges and descriptions. `finish` stores what is left."""

    __slots__ = ("_like", "_next", "_specs", "_step")

    def __init__(self, step: Step) -> None:
        self._step = step
        self._like = _NOTHING
        self._next = 0
        self._specs: list[bytes] = []

    def add(self, number: int, like: tuple[int | str | None, ...], spec: bytes) -> None:
        """`like` has the parts of a Like: a tuple is made in half the time, and there may be a million of them."""
        if number != self._next or like != self._like or len(self._specs) == _MOST:
            self.finish()
            self._like = Like._make(like)
        self._specs.append(spec)
        self._next = number + 1

    def finish(self) -> None:
        specs, self._specs = self._specs, []
        if len(specs) > _FEW:
            before, wall = self._next - len(specs) - 1, self._step.wall
            self._step.run(Q.task_insert_run, (before, wall, *self._like, apsw.carray(tuple(specs))))
        elif specs:
            self._step.run_many(Q.task_insert_few, self._spell(specs))

    def _spell(self, specs: list[bytes]) -> list[tuple[object, ...]]:
        queue, lane, status, priority, sign, waits, kids, description = self._like
        wall, first = self._step.wall, self._next - len(specs)
        return [
            (number, queue, lane, status, priority, number * sign, spec, wall, wall, waits, kids, description)
            for number, spec in enumerate(specs, first)
        ]
