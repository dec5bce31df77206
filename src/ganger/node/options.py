"""What a node is told when it is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ganger.core.node import DEFAULT_LEASE

HANDOVER: Final = 600_000


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Times are milliseconds.

    `slots`: so many attempts run at once; `prefetch` more may be claimed and wait here. `queues` are the only ones that
    it takes; None for all but those in `ignore`. `kinds` narrows what its executors take. `token` makes it the same
    node as the one that had it before: it is given what that one left. A planned restart keeps leases for `handover`.
    A drain waits for `grace` until what runs has ended and then hands it back; None waits as long as it takes.
    `environment` tells every attempt where the tasks are.
    """

    name: str
    slots: int = 1
    lease: int = DEFAULT_LEASE
    queues: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    kinds: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    prefetch: int = 0
    handover: int = HANDOVER
    grace: int | None = None
    token: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
