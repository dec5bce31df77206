"""A node: it takes tasks from a source, has them executed, and settles them.

It is made of seven services, which end in the opposite order of their start:

- `Presence` registers, adopts what a former node left, and is the last to go;
- `Beating` keeps the registration and every lease alive;
- `Touching` renews the leases that have an end of their own;
- `Strays` gives back what is leased to the node and not in its hands;
- `Settling` settles what has ended and fills the slots that become free, in one step;
- `Claiming` waits for work with the slots that nobody fills;
- `Retiring` waits for an operator who drains the node.

Between them stand the `Carrier`, which has every attempt in its hands, and the `Slots`, of which each is asked for by
one of the two that claim and never by both.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ganger.core.clock import Clock, Entropy
from ganger.core.errors import BadInput
from ganger.core.node import Registration, Vitals
from ganger.core.task import Kind
from ganger.node.beating import Beating
from ganger.node.carrying import Carrier
from ganger.node.claiming import Claiming
from ganger.node.executor import BatchExecutor, Executor
from ganger.node.following import Following
from ganger.node.keeping import Keeper
from ganger.node.means import Means
from ganger.node.options import NodeOptions
from ganger.node.presence import House, Presence
from ganger.node.retiring import Retiring
from ganger.node.session import Session
from ganger.node.settling import Settling
from ganger.node.slots import Slots
from ganger.node.source import WorkSource
from ganger.node.strays import Strays
from ganger.node.touching import Touching
from ganger.runtime.machine import Machine
from ganger.runtime.service import Service, ServiceState
from ganger.runtime.telemetry import SILENT, Telemetry

TOKEN_BYTES = 16


class Ready(NamedTuple):
    """Is work being taken, and if not, why not."""

    is_ready: bool
    why: str = ""


class Node(Service):
    """Start it, and it works until it is drained or stopped. NodeTaken at the start: its name is another's."""

    def __init__(
        self,
        source: WorkSource,
        executors: Sequence[Executor],
        batch: Sequence[BatchExecutor],
        options: NodeOptions,
        *,
        clock: Clock,
        entropy: Entropy,
        telemetry: Telemetry = SILENT,
        feel: Callable[[], Machine] = Machine,
    ) -> None:
        said = _introduce(options, entropy, executors, batch)
        self.session = Session(said.token, clock)
        means = Means(source, options, self.session, entropy, telemetry)
        keeper = Keeper(source, entropy, telemetry, Following(source, clock, entropy, telemetry))
        self.carrier = Carrier(means, executors, batch, keeper)
        slots = Slots(lambda: self.carrier.spare)
        house = House(self.carrier, executors, batch)
        self._settling = Settling(means, self.carrier, slots, keeper, self._hurry)
        self._claiming = Claiming(means, self.carrier, slots, self._hurry)
        self._presence = Presence(means, house, self._settling, said, self._claiming.interrupt)
        self._slots, self._machine = options.slots, feel
        self._beating = Beating(means, self.carrier, self._presence.rejoin, self._claiming.interrupt, self.feel)
        self._retiring = Retiring(means, self.carrier)
        touching = Touching(means, self.carrier, clock)
        strays = Strays(means, self.carrier)
        parts = [self._presence, self._beating, touching, strays, self._settling, self._claiming, self._retiring]
        super().__init__(f"node {options.name}", children=parts, telemetry=telemetry)

    def _hurry(self) -> None:
        self._beating.hurry()

    async def drain(self) -> None:
        """Take nothing more, give back what has not begun, let the rest end, and leave. The next beat tells of it."""
        self._beating.hurry()
        await super().drain()

    async def stop(self, *, leave_running: bool = False) -> None:
        """End now. With `leave_running` what runs goes on, and its leases wait for the next node of this name."""
        self._presence.leaves_running = self._presence.leaves_running or leave_running
        await super().stop()

    @property
    def retired(self) -> asyncio.Event:
        """Set when an operator had it drained and nothing is left in its hands: drain it then, which ends it."""
        return self._retiring.retired

    def feel(self) -> Vitals:
        """How it is, as it tells with each beat."""
        machine, hands = self._machine(), self.carrier.hands
        known = tuple(sorted(task for task, _ in hands.known()))
        return Vitals(self._slots, self.carrier.used, len(hands.held), *machine, trouble=self.ready().why, hands=known)

    @property
    def stale(self) -> int:
        """How many results were refused because their lease had ended."""
        return self._settling.stale

    def ready(self) -> Ready:
        """Is work being taken?"""
        if self.state is not ServiceState.RUNNING:
            return Ready(False, f"the node is {self.state}")
        if self.session.is_draining:
            return Ready(False, "the node was told to drain")
        if not self.session.is_trusted:
            return Ready(False, "no beat was answered in the time of a lease")
        if self._claiming.trouble is not None:
            return Ready(False, self._claiming.trouble)
        return Ready(True)


def _introduce(
    options: NodeOptions, entropy: Entropy, executors: Sequence[Executor], batch: Sequence[BatchExecutor]
) -> Registration:
    if not executors and not batch:
        raise BadInput("the node has nothing that could execute a task: give it an executor")
    kinds = {kind for one in executors for kind in one.kinds} | {kind for one in batch for kind in one.kinds}
    # Conditions are no task of an executor: the node says all the same whether it asks what they ask.
    wanted = kinds if options.kinds is None else {*kinds, Kind.CONDITION} & set(options.kinds)
    # A batch has room for as much as it can do, which is not known beforehand: the node itself asks for no more.
    slots = None if batch else options.slots + options.prefetch
    token = options.token or entropy.token(TOKEN_BYTES).hex()
    wishes = options.queues, tuple(sorted(wanted)), options.labels
    return Registration(options.name, token, slots, options.silence, *wishes)
