"""The loop that asks for work: it waits with all slots that are free, while others are filled as they become free."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from ganger.core.errors import GangerError, NodeGone
from ganger.core.task import Claimed
from ganger.node.carrying import Carrier
from ganger.node.means import Means
from ganger.node.pausing import Pause
from ganger.node.slots import Slots
from ganger.runtime.service import Service

LOOK: Final = 1.0
"""Seconds: an executor that could start nothing may be able to by now, and tells nobody."""


class Claiming(Service):
    """`trouble` says why nothing is claimed, if that is so. `hurry`: see Settling."""

    def __init__(self, means: Means, carrier: Carrier, slots: Slots, hurry: Callable[[], None]) -> None:
        super().__init__("claiming", telemetry=means.telemetry)
        self._source, self._session = means.source, means.session
        self._carrier, self._slots, self._hurry = carrier, slots, hurry
        self._pause = Pause(means.entropy)
        self._asking: asyncio.Task[Sequence[Claimed]] | None = None
        self.trouble: str | None = None

    async def run(self) -> None:
        while not self.draining.is_set():
            takes = self._session.joined.is_set() and not self._session.is_draining
            most = self._slots.reserve() if takes else 0
            if not most:
                await self._slots.wait(LOOK)
                continue
            try:
                await self._ask(most)
            except GangerError as error:
                await self._stand_back(error)

    async def drain(self) -> None:
        self.draining.set()
        self.interrupt()
        await super().drain()

    def interrupt(self) -> None:
        """Whatever is waited for, ask anew: the registration is another, or the node takes nothing more."""
        if self._asking is not None:
            self._asking.cancel()
        self._slots.tell()

    async def _ask(self, most: int) -> None:
        start = self._carrier.claims_started
        waiting = self._source.wait(self._session.node, most, start=start)
        asking = self._asking = asyncio.create_task(_wait(waiting), name="wait for work")
        try:
            await asyncio.wait([asking])
        finally:
            # Whoever is stopped here may have been given something at this very moment.
            await _end(asking)
            self._asking = None
            self._slots.give_back(most)
            if not asking.cancelled() and asking.exception() is None:
                self._carrier.take(asking.result())
        if not asking.cancelled():
            asking.result()
            self.trouble = None
            self._pause.reset()

    async def _stand_back(self, error: GangerError) -> None:
        if isinstance(error, NodeGone):
            self._hurry()
        else:
            self._session.is_doubtful = True
            self.trouble = f"nothing can be claimed: {error}"
        self._telemetry.event("claim_failed", error=error.code, message=str(error))
        await self._pause.take(self.draining)


async def _wait(waiting: Awaitable[Sequence[Claimed]]) -> Sequence[Claimed]:
    return await waiting


async def _end(asking: "asyncio.Task[Sequence[Claimed]]") -> None:
    asking.cancel()
    while not asking.done():
        await asyncio.wait([asking])
