"""How long tasks take, by their kind and name, as this node has seen it: whoever is known to be short may be fetched
before there is a slot for it, and nobody else.

What was fetched and cannot begin waits in vain, while a neighbour has nothing to do or something more urgent comes. So
a task that nobody has seen run counts as long, and of short ones only what begins within some milliseconds is fetched.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from ganger.wire.unreadable import UNREADABLE

AHEAD: Final = 10.0
"""Milliseconds: what is fetched begins within them."""

SHORT: Final = 5.0
"""Milliseconds: what takes longer is never fetched before there is a slot for it."""

_SHORTEST: Final = 0.02
_FEWEST: Final = 2.0
"""So many must have been seen."""

_MEMORY: Final = 0.7
"""What was noted before counts so much at each note, its time and its tasks: a late one among many changes little."""

_MOST_NAMES: Final = 10_000
_LONGEST_NAME: Final = 200


class Name(NamedTuple):
    """What tasks of one sort have in common: their kind, and the function, program or script."""

    kind: str
    text: str


class _Spec(msgspec.Struct, frozen=True):
    path: str = ""
    argv: list[str] = []
    script: str = ""


_SPEC: Final = msgspec.json.Decoder(_Spec)


def name(kind: str, spec: bytes | None) -> Name:
    """The name of a task; those whose spec cannot be read, or did not come along, are all alike."""
    try:
        found = _SPEC.decode(spec or b"{}")
    except UNREADABLE:
        return Name(kind, "")
    return Name(kind, (found.path or (found.argv[0] if found.argv else found.script))[:_LONGEST_NAME])


class Lengths:
    """Of each name how long the last ones took together, and how many that were. Times are milliseconds."""

    def __init__(self) -> None:
        self._seen: dict[Name, tuple[float, float]] = {}

    def note(self, name: Name, took: float, tasks: int = 1) -> None:
        """So many have run one after another for so long."""
        time, count = self._seen.pop(name, (0.0, 0.0))
        self._keep(name, _MEMORY * time + max(took, _SHORTEST * tasks), _MEMORY * count + tasks)

    def exceed(self, name: Name, age: float) -> None:
        """One has run for so long, and goes on: unless they are known to take longer, nothing else is known of them."""
        time, count = self._seen.get(name, (0.0, 0.0))
        if time < age * count or not count:
            self._keep(name, float(age), 1.0)

    def _keep(self, name: Name, time: float, count: float) -> None:
        self._seen.pop(name, None)
        self._seen[name] = time, count
        if len(self._seen) > _MOST_NAMES:
            del self._seen[next(iter(self._seen))]

    def count_ahead(self, names: Iterable[Name]) -> int:
        """How many tasks of these names one slot does in the time for which they are fetched: 1 if one is not short."""
        windows = [self._count(name) for name in names]
        return min(windows, default=1)

    def _count(self, name: Name) -> int:
        time, count = self._seen.get(name, (0.0, 0.0))
        if count < _FEWEST or time > SHORT * count:
            return 1
        return int(AHEAD * count / time)
