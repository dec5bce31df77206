"""Tells the source which attempts run now: those of one moment in one call, while the attempts themselves go on."""

import asyncio
from typing import Protocol

from ganger.core.errors import GangerError
from ganger.node.hands import Hand
from ganger.node.source import WorkSource
from ganger.runtime.telemetry import Telemetry


class Refused(Protocol):
    def __call__(self, hand: Hand) -> None: ...


class Starts:
    """`refused` is called with each whose lease had ended, unless it has ended by itself meanwhile."""

    def __init__(self, source: WorkSource, refused: Refused, telemetry: Telemetry) -> None:
        self._source = source
        self._refused = refused
        self._telemetry = telemetry
        self._fresh: list[Hand] = []
        self._telling: asyncio.Task[None] | None = None

    def note(self, hands: list[Hand]) -> None:
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
                fresh, self._fresh = self._fresh, []
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
