"""THE CONTRACT between a node and wherever the tasks are: an engine in the same process, or a server far away.

A node knows leases and outcomes, and nothing of stores. Everything that it writes is fenced by what it was given; what
is refused as stale is gone for it: it stops the attempt and says nothing more about it.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec

from ganger.core.clock import Moment
from ganger.core.ids import NodeId, TaskId
from ganger.core.lease import Lease
from ganger.core.node import Registration, Vitals
from ganger.core.outcome import Outcome
from ganger.core.task import Claimed, Eager


class Joined(NamedTuple):
    """A registration. `trusted_until` is by the node's own boot clock, counted from before it asked."""

    node: NodeId
    lease: int
    trusted_until: Moment


class Beaten(NamedTuple):
    """The answer to a beat: leases are good until then; take no more if `draining`.

    Of the tasks that the node holds, `kills` are to be killed, and the output of `followed` is read by somebody.
    """

    trusted_until: Moment
    kills: Sequence[TaskId] = ()
    draining: bool = False
    followed: Sequence[TaskId] = ()


class Finished(msgspec.Struct, frozen=True):
    """An attempt that has ended: its outcome, and the small values that are kept with it."""

    claimed: Claimed
    outcome: Outcome
    data: Mapping[str, bytes] = MappingProxyType({})


class Taken(NamedTuple):
    """New work, and the indexes of the finished ones that were refused because their lease had ended."""

    claimed: Sequence[Claimed]
    refused: Sequence[int] = ()


class WorkSource(Protocol):
    """Where a node gets its work and leaves what came of it."""

    async def join(self, said: Registration) -> Joined:
        """Register, or register anew. Raises NodeTaken while another live node has the name."""
        ...

    async def beat(self, node: NodeId, token: str, lease: int | None = None, vitals: Vitals | None = None) -> Beaten:
        """Renew every lease of the node, to `lease` ms from now if given. Raises NodeGone: all leases are lost.

        `vitals` is how the node is, for those who look at it.
        """
        ...

    async def leave(self, node: NodeId, token: str) -> None:
        """Leases that are left end now, and nobody is blamed."""
        ...

    async def take(self, node: NodeId, most: int, *, start: bool, finished: Sequence[Finished] = ()) -> Taken:
        """Settle these and claim at most so many of every queue that the node takes, in one step;

        At once, maybe none.
        """
        ...

    async def wait(self, node: NodeId, most: int, *, start: bool, eager: Eager | None = None) -> Sequence[Claimed]:
        """Claim as soon as there is something; returns empty when the queues changed and it is worth asking again.

        Waited for by one at a time. If it is cancelled, what it was given at that moment goes back, unless it was begun
        by whoever is `eager`, which a source may or may not ask.
        """
        ...

    async def started(self, leases: Sequence[Lease]) -> Sequence[int]:
        """These run now; the indexes of those whose lease has ended."""
        ...

    async def spec(self, task: TaskId) -> bytes:
        """A spec that was too large to come along."""
        ...

    async def progress(self, lease: Lease, percent: float | None, info: str | None) -> None: ...

    async def ship(self, lease: Lease, stream: str, start: int, body: bytes) -> None:
        """Output as it comes, for those who follow it. What is sent again, and maybe more of it, is kept once."""
        ...

    async def shipped(self, lease: Lease) -> Mapping[str, int]:
        """How far each stream of this attempt is stored already; a stream of which nothing is stored is left out."""
        ...

    async def keep(self, lease: Lease, key: str, body: AsyncIterator[bytes], start: int = 0) -> None:
        """A large value of an attempt that is about to be settled, or the rest of a stream from `start` on."""
        ...

    async def touch(self, leases: Sequence[Lease], length: int | None = None) -> Sequence[Moment | None]:
        """More time for leases with an end of their own: `length` ms from now, or as much as each was made with.

        Their new ends by the node's own boot clock, in their order; None for one that is lost.
        """
        ...

    def hear_followers(self, told: Callable[[], None]) -> Callable[[], None]:
        """Have `told` called on the event loop when somebody begins to follow a task that a node holds, maybe in vain:
        the next beat says which. Returns the way to stop it, to be called once.
        """
        ...

    def hear_nodes(self, told: Callable[[], None]) -> Callable[[], None]:
        """Have `told` called on the event loop when a node came, went, was drained or resumed, maybe this one: the next
        beat says so. Returns the way to stop it, to be called once.
        """
        ...

    async def held(self, node: NodeId) -> Sequence[Claimed]:
        """Every task that is leased to this registration now, in no order, with what settling it needs; specs are left
        out. By this alone a node finds what its predecessor left to it, and what it was given by a claim whose answer
        was lost; with a source that answers none nothing is adopted. Raises StoreError: ask again.
        """
        ...

    def listen(self, told: Callable[[], None]) -> Callable[[], None]:
        """Have `told` called on the event loop soon after anything happened anywhere, often in vain, and maybe once for
        many things. Returns the way to stop it, to be called once. Nothing depends on being told: it only spares a kill
        the wait for the next beat, so a source that hears of nothing never calls.
        """
        ...
