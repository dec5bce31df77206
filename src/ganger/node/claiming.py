"""The loop that asks for work: it waits with all slots that are free, while others are filled as they become free.

Tasks may come one by one in a stream, and each would be a question of its own. So after an answer of less than it asked
for the next question is held back for some milliseconds: if the tasks are short, their settle claims what came since.
But it is not held back once all is settled: who waits for one task before it submits the next is not slowed down.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from ganger.core.errors import GangerError, NodeGone
from ganger.core.task import Claimed
from ganger.node.carrying import Carrier
from ganger.node.means import Means
from ganger.node.pausing import Pause
from ganger.node.slots import Slots
from ganger.runtime.service import Service

GATHER: Final = 0.007
"""Seconds; a little more than lie between two settles."""

LOOK: Final = 1.0
"""Seconds: an executor that could start nothing may be able to by now, and tells nobody."""


class Claiming(Service):
    """`trouble` says why nothing is claimed, if that is so. `hurry`: see Settling."""

    def __init__(self, means: Means, carrier: Carrier, slots: Slots, hurry: Callable[[], None]) -> None:
        super().__init__("claiming", telemetry=means.telemetry)
        self._source, self._session = means.source, means.session
        self._carrier, self._slots, self._hurry = carrier, slots, hurry
        self._pause = Pause(means.entropy)
        self._asking: asyncio.Timeout | None = None
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
            self._asking.reschedule(asyncio.get_running_loop().time())
        self._slots.tell()

    async def _ask(self, most: int) -> None:
        taken: Sequence[Claimed] = ()
        try:
            async with asyncio.timeout(None) as self._asking:
                started = self._carrier.claims_started
                taken = await self._source.wait(self._session.node, most, start=started, eager=self._carrier.early)
        except TimeoutError:
            # It was interrupted. What it was given at that very moment goes back; if that fails, it is found.
            self._carrier.hands.doubted.set()
            return
        finally:
            self._asking = None
            self._slots.give_back(most)
            self._carrier.take(taken)
        self.trouble = None
        self._pause.reset()
        if 0 < len(taken) < most:
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHER):
                    await self._carrier.hands.settled.wait()

    async def _stand_back(self, error: GangerError) -> None:
        if isinstance(error, NodeGone):
            self._hurry()
        else:
            self._carrier.hands.doubted.set()
            self.trouble = f"nothing can be claimed: {error}"
        self._telemetry.event("claim_failed", error=error.code, message=str(error))
        await self._pause.take(self.draining)
