"""A node's registration as it believes in it: one at a time, lost and taken anew."""

import asyncio

from ganger.core.clock import Clock, Moment
from ganger.core.ids import NodeId
from ganger.node.source import Beaten, Joined


class Session:
    """`joined` is set while there is a registration; `told_to_drain` and `resumed` are never both set."""

    def __init__(self, token: str, clock: Clock) -> None:
        self.token = token
        self.node = NodeId(0)
        self.lease = 0
        self.trusted_until = Moment(0)
        self.is_draining = False
        self.joined = asyncio.Event()
        self.told_to_drain = asyncio.Event()
        self.resumed = asyncio.Event()
        self._clock = clock

    def join(self, joined: Joined) -> None:
        self.node, self.lease, self.trusted_until = joined
        self._turn(draining=False)
        self.joined.set()

    def renew(self, beaten: Beaten) -> None:
        self.trusted_until = beaten.trusted_until
        self._turn(draining=beaten.draining)

    def _turn(self, *, draining: bool) -> None:
        self.is_draining = draining
        now, before = (self.told_to_drain, self.resumed) if draining else (self.resumed, self.told_to_drain)
        before.clear()
        now.set()

    def lose(self) -> None:
        self.joined.clear()

    @property
    def is_trusted(self) -> bool:
        return self.joined.is_set() and self._clock.now() < self.trusted_until
