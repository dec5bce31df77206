"""What a warm process is told when it is started: words of its command line, which need no import to be read."""

from collections.abc import Sequence
from typing import NamedTuple


class Charge(NamedTuple):
    """The numbers of descriptors are those that it inherits. `slots`: how many functions it executes at once."""

    mode: int
    slots: int
    note: str
    spool: str
    cap: int
    jobs: int
    results: int
    outbox: int
    lifeline: int

    def words(self) -> list[str]:
        return [str(word) for word in self]

    @classmethod
    def read(cls, words: Sequence[str]) -> "Charge":
        mode, slots, note, spool, cap, *descriptors = words
        jobs, results, outbox, lifeline = map(int, descriptors)
        return cls(int(mode), int(slots), note, spool, int(cap), jobs, results, outbox, lifeline)
