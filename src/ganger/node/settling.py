"""What has ended is settled, and the slots that it leaves are filled, in one step with the source.

Whatever has ended at that moment goes together. Nothing waits for more, unless the node has enough to begin without
what the settle would claim, or tasks come one by one in a stream, so that each settle finds a few: then settles are a
few milliseconds apart, and short attempts share them. Whoever waits for one task before it submits the next is not
slowed down by that: the settle that ends the one never finds the other.

While the source does not answer, nothing is lost: attempts that ended stay here, are settled when it answers again, and
the source decides by their fences whether that still counts.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from ganger.core.errors import GangerError, NodeGone
from ganger.core.task import Claimed
from ganger.node.carrying import Carrier
from ganger.node.keeping import Keeper
from ganger.node.means import Means
from ganger.node.pausing import Pause
from ganger.node.slots import Slots
from ganger.node.source import Finished, Taken
from ganger.runtime.service import Service

GATHER: Final = 0.006
"""Seconds between two settles of a node that is well supplied, or supplied by a stream."""


class Settling(Service):
    """The loop that settles. `hurry` is called when the source says that the registration is gone."""

    def __init__(self, means: Means, carrier: Carrier, slots: Slots, keeper: Keeper, hurry: Callable[[], None]) -> None:
        super().__init__("settling", telemetry=means.telemetry)
        self._source, self._options, self._session = means.source, means.options, means.session
        self._carrier, self._slots, self._keeper, self._hurry = carrier, slots, keeper, hurry
        self._pause = Pause(means.entropy)
        self._last = 0.0
        self._is_streaming = False
        self.stale = 0

    async def run(self) -> None:
        hands = self._carrier.hands
        while not (self.draining.is_set() and hands.is_empty):
            await hands.woken.wait()
            await self._gather()
            hands.woken.clear()
            if ended := hands.take_ended():
                await self._settle(ended)
            else:
                self._slots.tell()

    async def _gather(self) -> None:
        loop = asyncio.get_running_loop()
        is_in_no_hurry = self._is_streaming or self._carrier.is_well_supplied
        if is_in_no_hurry and (left := self._last + GATHER - loop.time()) > 0:
            await asyncio.sleep(left)
        self._last = loop.time()

    async def drain(self) -> None:
        """Let what runs finish, at most for the grace; then hand it back."""
        self._carrier.close()
        self.draining.set()
        self._carrier.hands.woken.set()
        patience = self._hand_back_later()
        try:
            await super().drain()
        finally:
            if patience is not None:
                patience.cancel()

    def _hand_back_later(self) -> asyncio.TimerHandle | None:
        if self._options.grace is None:
            return None
        return asyncio.get_running_loop().call_later(self._options.grace / 1000, self._carrier.hand_back)

    async def flush(self) -> None:
        """Settle what is there, once, and claim nothing."""
        if ended := self._carrier.hands.take_ended():
            await self._take(ended, 0)

    async def _settle(self, ended: Sequence[Finished]) -> None:
        """Settle these and fill their slots. What could not be settled is tried again after a pause."""
        most = 0 if self.draining.is_set() or self._session.is_draining else self._slots.reserve()
        taken: Sequence[Claimed] = ()
        try:
            taken = await self._take(ended, most)
            self._pause.reset()
        except NodeGone:
            await self._settle_alone(ended)
        except GangerError as error:
            await self._retry(ended, error)
        finally:
            self._is_streaming = 0 < len(taken) < most
            self._slots.give_back(most, len(taken))
            self._carrier.take(taken)

    async def _take(self, ended: Sequence[Finished], most: int) -> Sequence[Claimed]:
        start, began = self._carrier.claims_started, asyncio.get_running_loop().time()
        try:
            taken = await self._source.take(self._session.node, most, start=start, finished=ended)
        except GangerError:
            raise
        except BaseException:
            # Cut off in the middle: they are settled later; what was settled already is refused then, and harms nobody.
            self._carrier.hands.put_back(ended)
            raise
        took = 1000 * (asyncio.get_running_loop().time() - began)
        self._carrier.appetite.note_settle(took, len(ended) + len(taken.claimed))
        self._put_away(ended, taken)
        return taken.claimed

    async def _settle_alone(self, ended: Sequence[Finished]) -> None:
        """The node may not claim: it drains, or it is gone. What has ended is settled all the same, if it still can."""
        self._hurry()
        try:
            await self._take(ended, 0)
        except GangerError as error:
            await self._retry(ended, error)

    async def _retry(self, ended: Sequence[Finished], error: GangerError) -> None:
        self._telemetry.event("settle_failed", count=len(ended), error=error.code, message=str(error))
        self._carrier.hands.doubted.set()
        self._carrier.hands.put_back(ended)
        await self._pause.take()
        self._carrier.hands.woken.set()

    def _put_away(self, ended: Sequence[Finished], taken: Taken) -> None:
        """They are settled, or nobody wants them any more: nothing of them is needed here."""
        if taken.refused:
            self.stale += len(taken.refused)
            stale = [ended[index].claimed.id for index in taken.refused]
            self._telemetry.event("stale_results", count=len(stale), tasks=stale)
        for hand, streams in self._carrier.hands.take_remains(ended):
            if streams and (spool := hand.spool) is not None:
                self._keeper.remove(spool, hand.claimed, streams)
            if hand.run is not None:
                hand.run.forget()
