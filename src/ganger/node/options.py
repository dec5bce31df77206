"""What a node is told when it is made."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.node import DEFAULT_LEASE

HANDOVER: Final = 600_000


def tell_nobody(node: NodeId) -> None:
    """Nobody need know under which registration the node works."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Times are milliseconds.

    `slots`: so many attempts run at once; of those that are known to be short `prefetch` more may be claimed, and what
    waits here for longer than `patience` goes back. `queues` are the only ones that it takes; None for all but those in
    `ignore`. `kinds` narrows what its executors take. `token` makes it the same node as the one that had it before: it
    is given what that one left. `lease` is how long it may be silent; None as long as is usual where it works. A
    planned restart keeps leases for `handover`.
    A drain waits for `grace` until what runs has ended and then hands it back; None waits as long as it takes.
    `environment` tells every attempt where the tasks are, and `sign` makes the token with which it speaks there.
    `trace` finds what else an attempt is told, of the trace that it belongs to. `joined` is told each registration.
    """

    name: str
    slots: int = 1
    lease: int | None = None
    queues: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    kinds: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    prefetch: int = 0
    patience: int = 10
    handover: int = HANDOVER
    grace: int | None = None
    token: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    sign: Callable[[TaskId, Fence], str] | None = None
    trace: Callable[[TaskId, Fence], Awaitable[Mapping[str, str]]] | None = None
    joined: Callable[[NodeId], None] = tell_nobody

    @property
    def silence(self) -> int:
        """How long it may be silent."""
        return DEFAULT_LEASE if self.lease is None else self.lease

    async def tell(self, task: TaskId, fence: Fence) -> dict[str, str]:
        """What an attempt finds in its environment of itself."""
        token = {} if self.sign is None else {"GANGER_TOKEN": self.sign(task, fence)}
        trace = {} if self.trace is None else await self.trace(task, fence)
        return {**self.environment, "GANGER_TASK": str(task), "GANGER_FENCE": str(fence), **token, **trace}
