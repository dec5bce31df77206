"""THE CONTRACT between a node and whatever executes a kind of task: start one attempt, watch it, stop it.

The node owns leases and slots; an executor owns what runs. A slot is given back only when `Run.ended` has returned, and
that returns only when nothing of the attempt runs any more: not its children, not what it daemonised.
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from ganger.core.clock import Moment
from ganger.core.ids import Fence, TaskId
from ganger.core.outcome import Outcome
from ganger.core.task import Claimed
from ganger.node.spool import Spool


class Assignment(msgspec.Struct, frozen=True):
    """One attempt to be made. `spec` is whole, also where it was too large to travel with the claim.

    `environment` is what every attempt is told of itself (GANGER_TASK, GANGER_FENCE, GANGER_STORE or GANGER_URL, a
    token). `trusted_until` is the end of the lease as the node may believe in it; it moves with `Run.trust`.
    """

    claimed: Claimed
    spec: bytes
    environment: dict[str, str]
    trusted_until: Moment


class Ended(NamedTuple):
    """How an attempt ended, and what it leaves: small data by key, and the streams that its spool has."""

    outcome: Outcome
    data: Mapping[str, bytes] = MappingProxyType({})
    streams: Sequence[str] = ()


class Run(Protocol):
    """An attempt that was started."""

    @property
    def task(self) -> TaskId: ...

    @property
    def fence(self) -> Fence: ...

    async def begun(self) -> None:
        """Wait until it runs, or has ended. Errors of `core.errors`: it could not be begun, for no fault of its own,
        and never will be; then there is no end to wait for.
        """
        ...

    async def ended(self) -> Ended:
        """Wait until it has ended and nothing of it runs. May be awaited more than once. Never raises for what the
        attempt did: that is an outcome. A time-out is Fail with its own code, a kill is Killed, a command that
        a signal ended is Fail with 128 + its number, the death of what carried the attempt is Crashed.
        """
        ...

    async def stop(self, reason: str) -> None:
        """Begin to end it: ask, wait for its grace, then force. Idempotent; `ended` says when it is done."""
        ...

    def withdraw(self) -> None:
        """Have it not begin, if it has not: then it ends with Release. What runs goes on. Idempotent, never waits."""
        ...

    def trust(self, until: Moment) -> None:
        """The lease was renewed. An attempt whose lease is not trusted any more is stopped by the executor itself, even
        when the node is stopped or gone, before another holder could be given the task.
        """
        ...

    def forget(self) -> None:
        """Its end is settled, or nobody wants it any more: nothing of it need be kept but its streams.

        Called when `ended` has returned. Until then a run that the executor would leave to the next node of the same
        name is told to that one again. Idempotent; never waits, and never raises for what is gone already.
        """
        ...


class Executor(Protocol):
    """Executes some kinds of tasks."""

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds that it takes, `plugin:` ones by their whole name."""
        ...

    @property
    def ahead(self) -> int:
        """So many attempts more than the node has slots may be given to it, if all that run are its own. They wait, in
        the order in which they came, and each begins the moment that one before it is over: at no time do more run than
        the node has slots. 0: what it is given begins at once. May change from one moment to the next.
        """
        ...

    @property
    def spool(self) -> Spool | None:
        """Where its attempts leave the streams that `Ended.streams` names; None if they leave none.

        The node stores what is too long for `Ended.data` before it settles, and removes each stream after that.
        """
        ...

    async def start(self, assignment: Assignment) -> Run:
        """Start one attempt, or have it wait: `Run.begun` tells when it runs. What is wrong with the task itself (no
        such program, a bad spec) is a Run that has ended with a Fail, not an error: errors of `core.errors` are for an
        executor that cannot start anything.
        """
        ...

    async def adopt(self) -> Sequence[Run]:
        """What a former node of the same name left running, or that ended unheard, in the order of its start."""
        ...

    async def close(self, *, leave_running: bool) -> None:
        """End everything, or leave it to the next node of the same name."""
        ...


class BatchExecutor(Protocol):
    """Executes many small attempts at once, one after another in warm processes: what is cheap stays cheap.

    The node hands over a batch and is told of ends in batches too, as they come; there is no `Run` for each.
    """

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds that it takes."""
        ...

    @property
    def spool(self) -> Spool | None:
        """As that of an Executor."""
        ...

    @property
    def blamed(self) -> Collection[tuple[TaskId, Fence]]:
        """What a former node of the same name was executing when it died; none if that one ended in order.

        Known from the beginning, and the same until the end. Each of these has crashed; what else that node held had
        not begun, and goes back with nothing counted against it.
        """
        ...

    @property
    def places(self) -> int:
        """How many more assignments would begin at once."""
        ...

    @property
    def room(self) -> int:
        """How many more assignments are useful now: as many as there are places, and where the last ones are known to
        be short, what else would begin in a few milliseconds. It gives back what it was given beyond that.
        """
        ...

    def start(self, assignments: Sequence[Assignment], told: "Told") -> None:
        """Run these; `told` is called on the event loop with those that have ended, and again for the others; with none
        when there is more room than there was.

        Never waits: what cannot begin at once is kept.
        """
        ...

    def prepare(self, claimed: Sequence[Claimed]) -> bool:
        """Get ready to run these, before the loop hears of them; False if that cannot be, or one is of another kind.

        See core.task.Eager.
        """
        ...

    def begin(self) -> None:
        """Run what was prepared. It is named to `start` soon, and before that nothing is told of it."""
        ...

    def forget(self) -> None:
        """Do not run what was prepared."""
        ...

    async def stop(self, task: TaskId, fence: Fence, reason: str) -> None:
        """End one: what has not begun is dropped and told as released, what runs is ended with its process."""
        ...

    def trust(self, until: Moment) -> None:
        """All leases of the node were renewed; see Run.trust."""
        ...

    @property
    def executing(self) -> Collection[tuple[TaskId, Fence]]:
        """What has begun and not ended, at this instant. Only these are to blame if the node is lost."""
        ...

    def give_back(self) -> None:
        """Tell what has not begun as released; what runs goes on, and what comes later is begun as ever."""
        ...

    async def close(self, *, give_back: bool) -> None:
        """Let what runs finish, and tell what has not begun as released (`give_back`), or end everything now."""
        ...


class Told(Protocol):
    def __call__(self, ended: Sequence[tuple[Assignment, Ended]]) -> None: ...


E = TypeVar("E", Executor, BatchExecutor)


def find_for(executors: Sequence[E], kind: str) -> E | None:
    """Who takes a kind: asked each time, because a plugin may have been found since."""
    return next((executor for executor in executors if kind in executor.kinds), None)
