"""The node's heartbeat: it renews every lease at once, hears whom to kill, and finds out when the node was given up.

What can go wrong, and why this is right:

- *The source does not answer.* What runs goes on: its lease is good until the end of trust, counted from before the
  last beat that was answered, and each executor ends its attempts by itself then. The beat is tried again, soon.
- *The registration is gone.* All leases are lost, and others may have the tasks by now. Everything is ended, nothing is
  told of it, and the node registers anew.
- *The answer to a claim was lost.* Then tasks are leased to this node that it knows nothing of, and its own beats keep
  those leases alive: see `strays.py`.
- *A kill waits for the next beat.* Where the source tells that something happened, a node that holds anything beats
  then, at most twice a second; and sooner when somebody begins to follow what a node holds, at most ten times.
- *An operator's drain waits for the next beat.* Where the source tells that nodes changed, that comes in half a second.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from ganger.core.errors import GangerError, NodeGone
from ganger.core.node import Vitals
from ganger.node.carrying import Carrier
from ganger.node.means import Means
from ganger.node.pausing import Pause
from ganger.node.source import Beaten
from ganger.runtime.service import Service

BEATS: Final = 3
"""So many in the time of one lease, at least."""

LONGEST: Final = 15.0
"""Seconds between two beats at most: of a long lease the more can be trusted, the later it was renewed."""

NUDGE: Final = 0.5
PROMPT: Final = 0.1
"""Seconds between two beats at least, when something happened, and when somebody began to follow."""


class Beating(Service):
    """`rejoin` is awaited when the registration is gone; `changed` is called when it is told to drain or to go on.

    `feel` says how the node is, which is told with each beat.
    """

    def __init__(
        self,
        means: Means,
        carrier: Carrier,
        rejoin: Callable[[asyncio.Event], Awaitable[None]],
        changed: Callable[[], None],
        feel: Callable[[], Vitals],
    ) -> None:
        super().__init__("beating", telemetry=means.telemetry)
        self._source, self._session, self._lease = means.source, means.session, means.options.silence / 1_000
        self._carrier, self._rejoin, self._changed, self._feel = carrier, rejoin, changed, feel
        self._pause = Pause(means.entropy, longest=max(0.05, self._lease / 6))
        self._woken = asyncio.Event()
        self._is_hurried = False
        self._is_nudged = False
        self._is_followed = False
        self._is_stirred = False
        self._last = 0.0

    def hurry(self) -> None:
        """Beat now: somebody says that the registration is gone."""
        self._is_hurried = True
        self._woken.set()

    def _hear_event(self) -> None:
        """Something happened somewhere; what else happens before the next beat changes nothing."""
        if self._carrier.hands.held and not self._is_stirred:
            self._is_stirred = True
            self._woken.set()

    def _hear_nodes(self) -> None:
        self._is_nudged = True
        self._woken.set()

    def _hear_follower(self) -> None:
        self._is_followed = True
        self._woken.set()

    async def drain(self) -> None:
        self.draining.set()
        self._woken.set()
        await super().drain()

    async def run(self) -> None:
        unlisten = self._source.listen(self._hear_event)
        unhear = self._source.hear_followers(self._hear_follower)
        ignore = self._source.hear_nodes(self._hear_nodes)
        self._last = asyncio.get_running_loop().time()
        # What was adopted may be followed.
        self._is_hurried = self._is_hurried or bool(self._carrier.hands.held)
        try:
            while not self.draining.is_set():
                await self._rest()
                if not self.draining.is_set():
                    await self._beat()
        finally:
            unlisten()
            unhear()
            ignore()

    async def _rest(self) -> None:
        """Until the next beat is due, or sooner if something happened that may be about us."""
        loop = asyncio.get_running_loop()
        while (left := self._due() - loop.time()) > 0 and not self._is_hurried and not self.draining.is_set():
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._woken.wait()
        self._is_hurried = self._is_nudged = self._is_followed = self._is_stirred = False

    def _due(self) -> float:
        """When to beat, by all that was heard so far: also while the last beat was on its way."""
        rest = min(self._lease / BEATS, LONGEST)
        if self._is_followed:
            rest = min(rest, PROMPT)
        elif self._is_stirred or self._is_nudged:
            rest = min(rest, NUDGE)
        return self._last + rest

    async def _beat(self) -> None:
        self._last = asyncio.get_running_loop().time()
        try:
            beaten = await self._source.beat(self._session.node, self._session.token, vitals=self._feel())
            self._obey(beaten)
            self._pause.reset()
        except NodeGone:
            self._telemetry.event("node_gone", node=self._session.node)
            await self._rejoin(self.draining)
        except GangerError as error:
            self._telemetry.event("beat_failed", error=error.code, message=str(error))
            await self._pause.take(self.draining)
            self._is_hurried = True

    def _obey(self, beaten: Beaten) -> None:
        was_draining = self._session.is_draining
        self._session.renew(beaten)
        self._carrier.trust(beaten.trusted_until)
        self._carrier.kill(beaten.kills)
        self._carrier.follow(beaten.followed)
        if beaten.draining != was_draining:
            self._changed()
