"""What a warm process is told when it is started: words of its command line, which need no import to be read."""

from collections.abc import Sequence
from typing import NamedTuple


class Charge(NamedTuple):
    """The numbers of descriptors are those that it inherits. `slots`: how many functions it executes at once.

    `level` is the least that functions log, `django` the settings of the project that they are part of, if any.
    `allow` has a pattern of what may be called on each line. `files`: how many it may have open; 0: as many as it has.
    """

    mode: int
    slots: int
    note: str
    spool: str
    cap: int
    level: str
    django: str
    allow: str
    files: int
    jobs: int
    results: int
    outbox: int
    lifeline: int

    def words(self) -> list[str]:
        return [str(word) for word in self]

    @classmethod
    def read(cls, words: Sequence[str]) -> "Charge":
        mode, slots, note, spool, cap, level, django, allow, *numbers = words
        files, jobs, results, outbox, lifeline = map(int, numbers)
        said = level, django, allow
        return cls(int(mode), int(slots), note, spool, int(cap), *said, files, jobs, results, outbox, lifeline)
