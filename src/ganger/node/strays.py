"""What a node leases it has in hand: what it does not know goes back within seconds.

The answer to a claim can be lost, or a fault can lease more than was told. Then tasks are leased to this node that it
knows nothing of, and its own beats would keep those leases alive for ever. So after each claim the node asks what is
leased to it, until all of that is in its hands or has gone back.

What can go wrong, and why this is right:

- *The answer is only late.* What was unknown for some seconds is given back, and never begun here afterwards, should
  the answer come after all: its lease has gone.
- *It has ended, and the settle is on its way.* That is in hand until the settle is answered.
- *The source does not answer.* Nothing is known of the leases then, and nothing is given back.
"""

import asyncio
from contextlib import suppress
from typing import Final

from ganger.core.errors import GangerError
from ganger.core.outcome import Release
from ganger.node.carrying import Carrier
from ganger.node.hands import Key
from ganger.node.means import Means
from ganger.runtime.service import Service

LOOK: Final = 1.0
"""Seconds between two looks, while there is any doubt."""
PATIENCE: Final = 2.0
"""Seconds for which an answer may be on its way."""


class Strays(Service):
    """Looks after each claim whether all that is leased to the node is in its hands."""

    def __init__(self, means: Means, carrier: Carrier) -> None:
        super().__init__("strays", telemetry=means.telemetry)
        self._source, self._session, self._carrier = means.source, means.session, carrier
        self._seen: dict[Key, float] = {}

    async def run(self) -> None:
        while not self.draining.is_set():
            await self._carrier.hands.doubted.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self.draining.wait()
            if not self.draining.is_set() and self._session.joined.is_set():
                await self._look()

    async def drain(self) -> None:
        """It only waits for what may never come: there is nothing to finish."""
        await self.stop()

    async def _look(self) -> None:
        self._carrier.hands.doubted.clear()
        try:
            leased = await self._source.held(self._session.node)
        except GangerError as error:
            self._telemetry.event("leases_unknown", error=error.code, message=str(error))
            self._carrier.hands.doubted.set()
            return
        now, known = asyncio.get_running_loop().time(), self._carrier.hands.known()
        strays = {(one.id, one.fence): one for one in leased if (one.id, one.fence) not in known}
        self._seen = {key: self._seen.get(key, now) for key in strays}
        for key in [key for key, first in self._seen.items() if now - first >= PATIENCE]:
            del self._seen[key]
            self._telemetry.event("stray_lease_given_back", task=key[0], fence=key[1])
            self._carrier.hands.renounce(strays[key], Release())
        if self._seen:
            self._carrier.hands.doubted.set()
