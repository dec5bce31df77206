"""What a node begins before its event loop has heard of it: see `core.task.Eager`."""

from collections.abc import Callable, Sequence

from ganger.core.task import Claimed
from ganger.node.executor import BatchExecutor
from ganger.node.hands import Key


class Early:
    """Has a batch executor get ready and begin, on a thread of the source; the loop takes what was begun in hand soon.

    `may_begin` says whether the node takes anything now; `take` takes in hand.
    """

    def __init__(
        self,
        batch: Sequence[BatchExecutor],
        may_begin: Callable[[], bool],
        take: Callable[[Sequence[Claimed]], None],
    ) -> None:
        self._batch, self._may_begin, self._take = batch, may_begin, take
        self._prepared: BatchExecutor | None = None
        self._begun: set[Key] = set()

    def prepare(self, claimed: Sequence[Claimed]) -> None:
        if self._prepared is not None or not self._may_begin():
            return
        for batch in self._batch:
            if batch.prepare(claimed):
                self._prepared = batch
                return

    def begin(self, claimed: Sequence[Claimed]) -> None:
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.begin()
            self._begun.update((one.id, one.fence) for one in claimed)

    def forget(self) -> None:
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.forget()

    def keep(self, claimed: Sequence[Claimed]) -> bool:
        is_begun = any((one.id, one.fence) in self._begun for one in claimed)
        if is_begun:
            self._take(claimed)
        return is_begun

    def pick(self, claimed: Sequence[Claimed]) -> bool:
        """Were these begun? Asked once: then the loop has them in hand. What is claimed together is begun together."""
        if not self._begun or not claimed or (claimed[0].id, claimed[0].fence) not in self._begun:
            return False
        self._begun.difference_update((one.id, one.fence) for one in claimed)
        return True
