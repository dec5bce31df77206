"""How much a node asks for: as many tasks as it has slots free, and short ones as far as they begin within moments.

Nobody knows what the next claim brings. It is taken for more of what the last one brought.
"""

from collections.abc import Sequence
from typing import Final

from ganger.core.task import Claimed
from ganger.node.executor import BatchExecutor
from ganger.node.lengths import Lengths, Name, name

_FIRST: Final = 64
_FEWEST: Final = 16
_MOST: Final = 1_024
_SETTLE: Final = 5.0
"""Milliseconds that a settle may take: what has ended waits for the one before it, and then for its own."""

_OVERHEAD: Final = 1.0
"""Milliseconds that a command takes at least: of one that ends soon begin and end are told together."""


class Appetite:
    """`ahead` is the most that executors are given beyond the slots; `has_executors`: are there others than batches?"""

    def __init__(self, slots: int, ahead: int, batch: Sequence[BatchExecutor], *, has_executors: bool) -> None:
        self._slots, self._ahead, self._batch, self._has_executors = slots, ahead, batch, has_executors
        self._lengths = Lengths()
        self._last: frozenset[Name] = frozenset()
        self._is_for_batches = not has_executors
        self._most = _FIRST

    def expect(self, *, batches: bool) -> None:
        """The last claim brought nothing but tasks for batches, or others too."""
        self._is_for_batches = batches

    def expect_runs(self, claimed: Sequence[Claimed]) -> None:
        """These came last for an executor."""
        self._last = frozenset([name(one.kind, one.spec) for one in claimed])

    def note(self, claimed: Claimed, took: float) -> None:
        """One of an executor has run for so many ms."""
        self._lengths.note(name(claimed.kind, claimed.spec), took + _OVERHEAD)

    def note_settle(self, took: float, tasks: int) -> None:
        """To settle and claim so many took so many ms. No more is in hand than can be settled soon."""
        self._most = max(_FEWEST, min(_MOST, int(_SETTLE * tasks / max(took, 0.1))))

    @property
    def begins_all(self) -> bool:
        """Does everything that is asked for now begin at once?"""
        return not self._has_executors and self._count_room(0) <= self._places

    @property
    def _places(self) -> int:
        return sum(batch.places for batch in self._batch)

    def _count_room(self, held: int) -> int:
        room = sum(batch.room for batch in self._batch)
        return max(self._places, min(room, self._most - held))

    @property
    def runs(self) -> int:
        """How many attempts of executors are of use at once: one for each slot, and the next ones if they are short."""
        return self._slots + min(self._ahead, self._slots * (self._lengths.count_ahead(self._last) - 1))

    def count(self, held: int, runs: int) -> int:
        """How many more tasks are of use, beside so many in hand, of which so many are executors' own."""
        return self._count_room(held) - runs if self._is_for_batches else self.runs - held
