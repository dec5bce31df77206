"""Tells the source which attempts run now: those of one moment in one call, while the attempts themselves go on.

Who was told to run is blamed if its node is lost, so only what has truly begun is told. A batch executor is handed more
than it executes. What that is, it is asked now and then: one that ends before it is seen needs no telling.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from ganger.core.errors import GangerError
from ganger.node.executor import BatchExecutor
from ganger.node.hands import Hand, Hands
from ganger.node.source import WorkSource
from ganger.runtime.telemetry import Telemetry

LOOK: Final = 0.2


class Starts:
    """`refused` is called with each whose lease had ended, unless it has ended by itself meanwhile."""

    def __init__(self, source: WorkSource, refused: Callable[[Hand], None], telemetry: Telemetry) -> None:
        self._source = source
        self._refused = refused
        self._telemetry = telemetry
        self._fresh: list[Hand] = []
        self._telling: asyncio.Task[None] | None = None

    def note(self, hands: list[Hand]) -> None:
        for hand in hands:
            hand.is_told = True
        self._fresh += hands
        if self._telling is None:
            self._telling = asyncio.create_task(self._tell(), name="tell starts")

    async def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait([self._telling])

    async def _tell(self) -> None:
        try:
            while self._fresh:
                # What has ended meanwhile is told by its settle.
                fresh, self._fresh = [hand for hand in self._fresh if not hand.is_over], []
                if fresh:
                    await self._tell_some(fresh)
        finally:
            self._telling = None

    async def _tell_some(self, fresh: list[Hand]) -> None:
        try:
            refused = await self._source.started([hand.claimed.lease for hand in fresh])
        except GangerError as error:
            # Its settle tells all that matters; until then it is taken for claimed.
            self._telemetry.event("starts_not_told", count=len(fresh), error=error.code)
            return
        for index in refused:
            self._refused(fresh[index])


class Beginnings:
    """Finds out which attempts of batch executors have begun, as long as there are any, and has them told."""

    def __init__(self, batch: Sequence[BatchExecutor], hands: Hands, starts: Starts) -> None:
        self._batch = batch
        self._hands = hands
        self._starts = starts
        self._timer: asyncio.TimerHandle | None = None

    def look_soon(self) -> None:
        if self._timer is None and self._batch:
            self._timer = asyncio.get_running_loop().call_later(LOOK, self._look)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = None
        held = self._hands.held
        begun = [held[key] for one in self._batch for key in one.executing if key in held]
        if fresh := [hand for hand in begun if not hand.is_told]:
            self._starts.note(fresh)
        if any(hand.batch is not None for hand in held.values()):
            self.look_soon()
