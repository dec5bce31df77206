"""What was submitted as one, in the hands of whoever waits for it: a group, and a condition with its branches."""

from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ganger.client.bridge import Bridge
from ganger.client.calls import Call
from ganger.client.function import Function
from ganger.client.graph import Condition, Graph, GraphTask
from ganger.client.handle import AsyncHandle, Handle
from ganger.core.span import Span, to_seconds

T = TypeVar("T")
Calls = Call[Any] | Iterable[Call[Any]]


class Choice(NamedTuple):
    """A condition, and what follows it. The tasks of the branch that is not chosen end cancelled, as skipped."""

    handle: Handle[None]
    then: tuple[Handle[Any], ...]
    otherwise: tuple[Handle[Any], ...]


class Group(Generic[T]):
    """Tasks that were submitted together; `handle` ends when all of them have. `then` is the task that follows."""

    def __init__(
        self, bridge: Bridge, handle: Handle[None], members: Sequence[Handle[T]], then: Handle[Any] | None
    ) -> None:
        self._bridge = bridge
        # A group ends with the last of its members, and of those one may be held.
        self._ids = [member.id for member in members] or [handle.id]
        self.handle = handle
        self.members = tuple(members)
        self.then = then

    def wait(self, timeout: Span | None = None, *, through_hold: bool = False) -> bool:
        """Wait until all have ended: True; or until the time is up: False. TaskHeld: see `Handle.wait`."""
        seconds = to_seconds(timeout, "timeout")
        return self._bridge.run(lambda transport: transport.wait(self._ids, seconds, through_hold=through_hold))

    async def async_wait(self, timeout: Span | None = None, *, through_hold: bool = False) -> bool:
        """As `wait`, from async code."""
        seconds = to_seconds(timeout, "timeout")
        return await self._bridge.arun(lambda transport: transport.wait(self._ids, seconds, through_hold=through_hold))

    def results(self, timeout: Span | None = None, *, through_hold: bool = False) -> list[T]:
        """What they returned, in their order; raises for the first that did not succeed."""
        if not self.wait(timeout, through_hold=through_hold):
            raise TimeoutError(f"the group {self.handle.id} has not ended within {timeout} s")
        return [member.result() for member in self.members]

    async def async_results(self, timeout: Span | None = None, *, through_hold: bool = False) -> list[T]:
        """As `results`, from async code."""
        if not await self.async_wait(timeout, through_hold=through_hold):
            raise TimeoutError(f"the group {self.handle.id} has not ended within {timeout} s")
        handles: list[AsyncHandle[T]] = [member.aio for member in self.members]
        return [await handle.result() for handle in handles]

    def cancel(self) -> bool:
        """End all of them, those that run too."""
        return self.handle.cancel()


class GroupParts(Generic[T]):
    """The tasks of a group while it is made."""

    def __init__(self, graph: Graph, calls: Iterable[Call[T]], then: Function[..., Any, Any] | None) -> None:
        self._graph = graph
        self._members = [graph.add(call) for call in calls]
        self._whole = graph.group(self._members)
        self._then: GraphTask[Any] | None = None
        if then is not None:
            call = then.prepare([[member.result for member in self._members]], {})
            self._then = graph.add(call, after=self._whole.finished, waits_for_arguments=False)

    def group(self) -> Group[T]:
        """The group, when its graph is submitted."""
        members = [member.handle for member in self._members]
        then = None if self._then is None else self._then.handle
        return Group(self._graph.bridge, self._whole.handle, members, then)


class ChoiceParts:
    """A condition and its branches while they are made."""

    def __init__(self, graph: Graph, condition: Condition, then: Calls, otherwise: Calls) -> None:
        self._condition = condition
        self._then = [graph.add(call, after=condition.then) for call in _listed(then)]
        self._otherwise = [graph.add(call, after=condition.otherwise) for call in _listed(otherwise)]

    def choice(self) -> Choice:
        """The condition and its branches, when their graph is submitted."""
        then, otherwise = (tuple(task.handle for task in tasks) for tasks in (self._then, self._otherwise))
        return Choice(self._condition.handle, then, otherwise)


def _listed(calls: Calls) -> list[Call[Any]]:
    return [calls] if isinstance(calls, Call) else list(calls)
