"""The queues of a far engine: remembered for a moment, because nobody says when they change."""

from collections.abc import Mapping
from typing import Final

from ganger.assembly.remote.store import RemoteStore
from ganger.core.clock import Clock, Wall
from ganger.core.ids import QueueId
from ganger.core.queue import Queue
from ganger.engine.queues import Queues

AGE: Final = 2_000
"""Milliseconds after which they are asked for again."""


class RemoteQueues(Queues):
    """As `Queues`, without listening: a command that looks once must not leave a request waiting at the server."""

    def __init__(self, store: RemoteStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: Mapping[QueueId, Queue] | None = None
        self._named: Mapping[str, Queue] = {}
        self._changes = 0
        self._unlisten = _do_nothing
        self._read_at = clock.now()

    async def _load(self) -> Mapping[QueueId, Queue]:
        if self._clock.now() - self._read_at > AGE:
            self._forget()
        if self._known is None:
            self._read_at = self._clock.now()
        return await super()._load()

    async def _lighten(self, queue: QueueId, by: str, drop: bool) -> Wall | None:
        """The far engine does that."""
        return None


def _do_nothing() -> None:
    return
