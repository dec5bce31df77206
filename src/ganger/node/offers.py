"""What a source or an executor may offer beyond its contract; a node uses it where it is there."""

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, runtime_checkable

from ganger.core.ids import Fence, NodeId, TaskId
from ganger.core.task import Claimed
from ganger.node.spool import Spool


@runtime_checkable
class KnowsHeld(Protocol):
    """A source that can say what a node holds: without it nothing can be adopted."""

    async def held(self, node: NodeId) -> Sequence[Claimed]:
        """Every task that is leased to this registration now, with what settling it needs; specs are left out."""
        ...


@runtime_checkable
class Wakes(Protocol):
    """A source that tells when something happened, so that a kill need not wait for the next beat."""

    def listen(self, told: Callable[[], None]) -> Callable[[], None]:
        """Call `told` soon after anything happened anywhere, often in vain; returns the way to stop it."""
        ...


@runtime_checkable
class HasSpool(Protocol):
    """An executor whose attempts leave streams in a spool."""

    @property
    def spool(self) -> Spool: ...


@runtime_checkable
class Blames(Protocol):
    """A batch executor that knows what a former node of the same name was executing when it died."""

    @property
    def blamed(self) -> Collection[tuple[TaskId, Fence]]: ...


@runtime_checkable
class Forgettable(Protocol):
    """A run that is kept for the next node until it is known to be settled."""

    def forget(self) -> None: ...


def forget(run: object) -> None:
    """Nobody need be told of it again."""
    if isinstance(run, Forgettable):
        run.forget()
