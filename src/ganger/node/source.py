"""THE CONTRACT between a node and wherever the tasks are: an engine in the same process, or a server far away.

A node knows leases and outcomes, and nothing of stores. Everything that it writes is fenced by what it was given; what
is refused as stale is gone for it: it stops the attempt and says nothing more about it.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ganger.core.clock import Moment
from ganger.core.ids import NodeId, TaskId
from ganger.core.lease import Lease
from ganger.core.node import Registration
from ganger.core.outcome import Outcome
from ganger.core.task import Claimed


class Joined(NamedTuple):
    """A registration. `trusted_until` is by the node's own boot clock, counted from before it asked."""

    node: NodeId
    lease: int
    trusted_until: Moment


class Beaten(NamedTuple):
    """The answer to a beat: leases are good until then; these tasks are to be killed; take no more if `draining`."""

    trusted_until: Moment
    kills: Sequence[TaskId] = ()
    draining: bool = False


class Finished(NamedTuple):
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

    async def beat(self, node: NodeId, token: str, lease: int | None = None) -> Beaten:
        """Renew every lease of the node, to `lease` ms from now if given. Raises NodeGone: all leases are lost."""
        ...

    async def leave(self, node: NodeId, token: str) -> None:
        """Leases that are left end now, and nobody is blamed."""
        ...

    async def take(self, node: NodeId, most: int, *, start: bool, finished: Sequence[Finished] = ()) -> Taken:
        """Settle these and claim at most so many of every queue that the node takes, in one step;

        At once, maybe none.
        """
        ...

    async def wait(self, node: NodeId, most: int, *, start: bool) -> Sequence[Claimed]:
        """Claim as soon as there is something; returns empty when the queues changed and it is worth asking again."""
        ...

    async def started(self, leases: Sequence[Lease]) -> Sequence[int]:
        """These run now; the indexes of those whose lease has ended."""
        ...

    async def spec(self, task: TaskId) -> bytes:
        """A spec that was too large to come along."""
        ...

    async def progress(self, lease: Lease, percent: float | None, info: str | None) -> None: ...

    async def ship(self, lease: Lease, stream: str, start: int, body: bytes) -> None:
        """Output as it comes, for those who follow it from elsewhere."""
        ...

    async def keep(self, lease: Lease, key: str, body: AsyncIterator[bytes]) -> None:
        """A large value of an attempt that is about to be settled."""
        ...

    async def followed(self, task: TaskId) -> bool:
        """Does anybody elsewhere read the output of this task now?"""
        ...
