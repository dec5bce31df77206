"""Tasks that wait for each other, submitted as one."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar, Unpack

from ganger.client.bridge import Bridge
from ganger.client.calls import NO_LIMITS, Call, command, new_task, shell
from ganger.client.function import Function
from ganger.client.handle import AsyncHandle, Handle
from ganger.client.options import Options, Span, Wishes
from ganger.client.references import Referable, Reference, encode
from ganger.client.transport import Draft
from ganger.core.errors import BadInput
from ganger.core.graph import Edge, Join, On
from ganger.core.ids import QueueId, TaskId
from ganger.core.task import Kind, NewTask
from ganger.wire.specs import Limits

T = TypeVar("T")


class Ending(NamedTuple):
    """A task and the end that is asked of it."""

    task: Referable
    on: str = On.SUCCESS


After = Referable | Ending | Iterable[Referable | Ending]


class GraphTask(Referable, Generic[T]):
    """A task of a graph. `result` may be an argument of a later one; `handle` is there when the graph is submitted."""

    def __init__(self, graph: "Graph", place: int, returns: Any) -> None:
        self._graph = graph
        self._place = place
        self._returns = returns

    @property
    def graph(self) -> "Graph":
        return self._graph

    @property
    def number(self) -> int:
        ids = self._graph.ids
        return -self._place if ids is None else ids[self._place - 1]

    @property
    def result(self) -> Any:
        """What it will return, as an argument. Any, because it stands for a value of whatever type that has."""
        return Reference(self)

    @property
    def finished(self) -> Ending:
        """For `after`: when it has ended, in whatever way."""
        return Ending(self, On.FINISHED)

    @property
    def failed(self) -> Ending:
        """For `after`: only if it has failed."""
        return Ending(self, On.FAILED)

    @property
    def handle(self) -> Handle[T]:
        """The submitted task. BadInput before the graph is submitted."""
        if self._graph.ids is None:
            raise BadInput("this task has no handle before its graph is submitted, at the end of the with block")
        return Handle(self._graph.bridge, TaskId(self.number), self._returns)


class Graph:
    """Collects tasks and submits them together at the end of its `with` block, or not at all if that raises."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.ids: list[TaskId] | None = None
        self._drafts: list[Draft] = []

    def __enter__(self) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.submit()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if kind is None:
            await self.asubmit()

    def submit(self) -> None:
        """Store all of it, or raise and store nothing."""
        drafts = self._sealed()
        self.ids = self.bridge.run(lambda transport: transport.submit(drafts)) if drafts else []

    async def asubmit(self) -> None:
        """As `submit`, from async code."""
        drafts = self._sealed()
        self.ids = await self.bridge.arun(lambda transport: transport.submit(drafts)) if drafts else []

    def task(
        self, function: Function[..., Any, T], *args: Any, after: After = (), join: str = Join.ALL, **kwargs: Any
    ) -> GraphTask[T]:
        """A call of a function. Tasks whose results are among its arguments are waited for without being named."""
        return self.add(function.prepare(list(args), kwargs), after=after, join=join)

    def command(
        self,
        argv: Sequence[str],
        *,
        after: After = (),
        join: str = Join.ALL,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        merge: bool = False,
        limits: Limits = NO_LIMITS,
        grace: Span = 5_000,
        **wishes: Unpack[Wishes],
    ) -> GraphTask[int]:
        """A program and its arguments."""
        call = command(argv, cwd=cwd, env=env, stdin=stdin, merge=merge, limits=limits, grace=grace, **wishes)
        return self.add(call, after=after, join=join)

    def shell(
        self,
        script: str,
        *,
        after: After = (),
        join: str = Join.ALL,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        merge: bool = False,
        limits: Limits = NO_LIMITS,
        grace: Span = 5_000,
        **wishes: Unpack[Wishes],
    ) -> GraphTask[int]:
        """A bash script."""
        call = shell(script, cwd=cwd, env=env, stdin=stdin, merge=merge, limits=limits, grace=grace, **wishes)
        return self.add(call, after=after, join=join)

    def add(
        self, call: Call[T], *, after: After = (), join: str = Join.ALL, waits_for_arguments: bool = True
    ) -> GraphTask[T]:
        """Any call. Without `waits_for_arguments` only those in `after` are waited for."""
        encoded = encode(call.spec)
        asked = {ending.task.number: ending.on for ending in _endings(after)}
        if waits_for_arguments:
            asked = {source.number: str(On.SUCCESS) for source in encoded.sources} | asked
        self._check((*encoded.sources, *(ending.task for ending in _endings(after))))
        parents = tuple(Edge(number, on) for number, on in asked.items())
        task = new_task(call, encoded.spec)._replace(parents=parents, join=join)
        return self._append(Draft(call.options.queue, task, refers=self._is_inside(encoded.sources)), call.returns)

    def group(self, members: Sequence[GraphTask[Any]], **wishes: Unpack[Wishes]) -> GraphTask[None]:
        """A task that ends when all of these have ended."""
        self._refuse_sealed()
        if any(member.graph is not self for member in members):
            raise BadInput("the members of a group are tasks of its own graph")
        if any(self._drafts[-member.number - 1].task.group for member in members):
            raise BadInput("one of these is in a group already; a group may have groups as its members")
        options = Options(**wishes)
        made: GraphTask[None] = self._append(
            Draft(options.queue, NewTask(QueueId(0), Kind.GROUP, description=options.description)), None
        )
        for member in members:
            place = -member.number - 1
            draft = self._drafts[place]
            self._drafts[place] = draft._replace(task=draft.task._replace(group=made.number))
        return made

    def _append(self, draft: Draft, returns: Any) -> GraphTask[Any]:
        self._refuse_sealed()
        self._drafts.append(draft)
        return GraphTask(self, len(self._drafts), returns)

    def _sealed(self) -> list[Draft]:
        self._refuse_sealed()
        return list(self._drafts)

    def _refuse_sealed(self) -> None:
        if self.ids is not None:
            raise BadInput("this graph has been submitted: nothing can be added to it; make another")

    def _check(self, tasks: Sequence[Referable]) -> None:
        for task in tasks:
            if task.number < 0 and not self._is_inside((task,)):
                raise BadInput("a task of another graph, which has not been submitted, cannot be waited for")

    def _is_inside(self, tasks: Sequence[Referable]) -> bool:
        return any(isinstance(task, GraphTask) and task.graph is self for task in tasks)


def _endings(after: After) -> list[Ending]:
    if isinstance(after, Ending):
        return [after]
    if isinstance(after, Referable):
        return [Ending(after)]
    return [one if isinstance(one, Ending) else Ending(one) for one in after]


class Group(Generic[T]):
    """Tasks that were submitted together; `handle` ends when all of them have. `then` is the task that follows."""

    def __init__(self, handle: Handle[None], members: Sequence[Handle[T]], then: Handle[Any] | None) -> None:
        self.handle = handle
        self.members = tuple(members)
        self.then = then

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all have ended: True; or until the time (seconds) is up: False."""
        return self.handle.wait(timeout)

    async def async_wait(self, timeout: float | None = None) -> bool:
        return await self.handle.aio.wait(timeout)

    def results(self, timeout: float | None = None) -> list[T]:
        """What they returned, in their order; raises for the first that did not succeed."""
        if not self.wait(timeout):
            raise TimeoutError(f"the group {self.handle.id} has not ended within {timeout} s")
        return [member.result() for member in self.members]

    async def async_results(self, timeout: float | None = None) -> list[T]:
        if not await self.async_wait(timeout):
            raise TimeoutError(f"the group {self.handle.id} has not ended within {timeout} s")
        handles: list[AsyncHandle[T]] = [member.aio for member in self.members]
        return [await handle.result() for handle in handles]

    def cancel(self) -> bool:
        """End all of them, those that run too."""
        return self.handle.cancel()
