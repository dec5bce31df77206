"""The right of one holder to one task, and how long the holder may believe in it.

Any lock with an end can be held by two at once: the holder checks its lease, is paused (a suspended laptop, a stopped
process, a slow disk), the lease ends, another takes the task, and the first wakes up and acts. No length cures this.
The cure is the *fence*: an integer that grows with every lease of a task and when a lease is taken back; every write of
a holder names it, and the store refuses any but the newest, in the same transaction as the write. So the lease only
saves work; the fence keeps the truth.

A lease ends in one of two ways. By *liveness*: it lasts as long as its node's registration does, and one beat of the
node renews all of them, whatever their number. By *touch*: it has its own end, and its holder asks for more (this is
how beanstalk clients live). Both ends are moments of the boot clock of the machine that has the store, read by the
store when it applies a write: the holder's own clock is never asked, a wall clock never, and a moment of another boot
means nothing, so leases of another boot are void.

The holder for its part trusts its lease only until the start of its last renewal plus the length, less a margin: the
request may have waited, and the clock of another machine may run a little faster.
"""

from enum import StrEnum
from typing import NamedTuple

from ganger.core.clock import Moment
from ganger.core.ids import Fence, NodeId, TaskId

MARGIN = 0.1
DEFAULT_TTR = 60_000


class Renewal(StrEnum):
    LIVENESS = "liveness"
    TOUCH = "touch"


class Lease(NamedTuple):
    """What a holder names with each of its writes. `until` is None where the node's liveness decides."""

    task: TaskId
    fence: Fence
    holder: NodeId
    until: Moment | None = None


def valid(until: Moment | None, node_until: Moment, now: Moment) -> bool:
    """Is a lease good at this instant? One that is touched also needs its node to be there."""
    return now < node_until and (until is None or now < until)


def trusted_until(asked: Moment, length: int) -> Moment:
    """Until when the holder may act on a lease that it asked for at `asked`."""
    return Moment(asked + length - max(1, round(length * MARGIN)))
