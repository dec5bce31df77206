"""Standing units: they wait for a topic, and are run in the very transaction that wakes it.

Whoever waits for work hears that there is some when the commit that brought it is over, asks, and is given it by a
second commit. If its question is left with the owner beforehand, one commit does both. This is a short cut and nothing
else: it is for units of the owner's own process, none is kept when the file passes on, and whoever leaves one must
listen to the topics as well. Each is run once. It is taken back or it is run, never both.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

from ganger.databases.sqlite.unit import Called, Unit


class Stood(NamedTuple):
    """A unit, what it waits for, and who waits for it."""

    number: int
    topics: frozenset[str]
    unit: Unit
    waiter: Called


class Standing:
    """Added and taken back from any thread; run on the owner's."""

    __slots__ = ("_numbers", "_stood")

    def __init__(self) -> None:
        self._stood: dict[int, Stood] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._stood)

    def add(self, topics: Iterable[str], operation: str, request: Any, waiter: Called) -> Callable[[], bool]:
        """Returns what takes it back: True if it will not be run, False if it was or is being run."""
        number = next(self._numbers)
        self._stood[number] = Stood(number, frozenset(topics), Unit(operation, request, waiter), waiter)
        return lambda: self._stood.pop(number, None) is not None

    def take(self, topics: Collection[str]) -> list[Stood]:
        """Those that wait for one of these; they are the caller's from now on."""
        if not self._stood or not topics:
            return []
        found = [each.number for each in list(self._stood.values()) if not each.topics.isdisjoint(topics)]
        taken = [self._stood.pop(number, None) for number in found]
        return [each for each in taken if each is not None]

    def put_back(self, stood: Sequence[Stood]) -> None:
        """They were not run after all."""
        for each in stood:
            each.waiter.void()
        self._stood.update((each.number, each) for each in stood)
