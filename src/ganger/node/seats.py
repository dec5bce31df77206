"""Who has the slots of a node, and who may be given an attempt to have waiting when one becomes free."""

from collections import Counter

from ganger.node.executor import Executor


class Seats:
    """Each attempt of an executor takes one from its start to its end; those that wait there are counted as well.

    More are given out than there are slots only while one executor has them all: it alone knows which of its attempts
    have begun, so it alone can keep them from being too many.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.taken = 0
        self._shares: Counter[Executor] = Counter()

    @property
    def used(self) -> int:
        """How many slots are in use."""
        return min(self.taken, self._slots)

    def has_room(self, executor: Executor) -> bool:
        if self.taken < self._slots:
            return True
        return self.taken < self._slots + executor.ahead and self._shares[executor] == self.taken

    def take(self, executor: Executor) -> None:
        self.taken += 1
        self._shares[executor] += 1

    def leave(self, executor: Executor) -> None:
        self.taken -= 1
        self._shares[executor] -= 1
