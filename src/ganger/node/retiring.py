"""A node that an operator drains: it gives back what it has not begun, lets the rest end, and is then free to go.

Until it has gone it may be resumed, and takes tasks as before.
"""

import asyncio

from ganger.node.carrying import Carrier
from ganger.node.means import Means
from ganger.runtime.service import Service


class Retiring(Service):
    """`retired` is set when the node was told to drain and has nothing in its hands: whoever runs it ends it then."""

    def __init__(self, means: Means, carrier: Carrier) -> None:
        super().__init__("retiring", telemetry=means.telemetry)
        self._options, self._session, self._carrier = means.options, means.session, carrier
        self.retired = asyncio.Event()

    async def run(self) -> None:
        while not self.retired.is_set():
            await self._session.told_to_drain.wait()
            self._telemetry.event("node_draining", node=self._session.node)
            self._carrier.retreat()
            await self._empty()

    async def drain(self) -> None:
        """It only waits for what may never come: there is nothing to finish."""
        await self.stop()

    async def _empty(self) -> None:
        """Until nothing is held, or the node is resumed. What outlasts the grace is handed back."""
        patience = self._hand_back_later()
        waits = [asyncio.ensure_future(event.wait()) for event in (self._carrier.hands.emptied, self._session.resumed)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            if patience is not None:
                patience.cancel()
        if self._session.is_draining:
            self.retired.set()

    def _hand_back_later(self) -> asyncio.TimerHandle | None:
        if self._options.grace is None:
            return None
        return asyncio.get_running_loop().call_later(self._options.grace / 1000, self._carrier.hand_back)
