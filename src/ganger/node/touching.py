"""Leases with an end of their own: the node asks for more time for each, as long as its attempt is in its hands.

A beat renews what lives by the node's liveness, and nothing else. A lease that is touched may be much shorter than a
beat is long, so these are renewed by themselves, each when a third of its length is over.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ganger.core.clock import Clock, Moment
from ganger.core.errors import GangerError
from ganger.node.carrying import Carrier
from ganger.node.hands import Hand, Key
from ganger.node.means import Means
from ganger.node.pausing import Pause
from ganger.runtime.service import Service

PARTS: Final = 3
"""A lease is renewed when one of so many parts of it is over."""

_SHORTEST: Final = 10


class Touching(Service):
    """Sleeps while nothing that is held has an end of its own."""

    def __init__(self, means: Means, carrier: Carrier, clock: Clock) -> None:
        super().__init__("touching", telemetry=means.telemetry)
        self._source, self._carrier, self._clock = means.source, carrier, clock
        self._pause = Pause(means.entropy)
        self._due: dict[Key, Moment] = {}

    async def drain(self) -> None:
        self.draining.set()
        self._carrier.touched.set()
        await super().drain()

    async def run(self) -> None:
        while not self.draining.is_set():
            self._carrier.touched.clear()
            self._plan()
            await self._rest()
            due = self._find_due()
            if due:
                await self._touch(due)

    def _plan(self) -> None:
        """When each is touched next; one that came just now, when a part of what is left of it is over."""
        held, now = self._carrier.hands.held, self._clock.now()
        self._due = {
            key: self._due.get(key) or _part(now, self._carrier.end_of(hand.claimed) or now)
            for key, hand in held.items()
            if hand.claimed.until is not None
        }

    async def _rest(self) -> None:
        first = min(self._due.values(), default=None)
        seconds = None if first is None else max(0, first - self._clock.now()) / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._carrier.touched.wait()

    def _find_due(self) -> list[Hand]:
        now, held = self._clock.now(), self._carrier.hands.held
        return [held[key] for key, due in self._due.items() if due <= now and key in held]

    async def _touch(self, hands: Sequence[Hand]) -> None:
        asked = self._clock.now()
        try:
            ends = await self._source.touch([hand.claimed.lease for hand in hands])
        except GangerError as error:
            self._telemetry.event("touch_failed", count=len(hands), error=error.code, message=str(error))
            await self._pause.take(self.draining)
            return
        self._pause.reset()
        for hand, end in zip(hands, ends, strict=True):
            if end is None:
                self._carrier.refuse(hand)
            else:
                self._carrier.extend(hand, end)
                self._due[hand.key] = _part(asked, end)


def _part(now: Moment, end: Moment) -> Moment:
    return Moment(now + max(_SHORTEST, (end - now) // PARTS))
