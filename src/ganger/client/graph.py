"""Tasks that wait for each other, submitted as one."""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar, Unpack, cast

import msgspec

from ganger.client.bridge import Bridge
from ganger.client.calls import Call, command, new_task, shell
from ganger.client.conditions import Question, Wait, ask_of, wait_until, when
from ganger.client.function import Function
from ganger.client.handle import Handle
from ganger.client.options import CommandWishes, Options, Wishes
from ganger.client.references import Referable, Reference, encode
from ganger.client.transport import Draft
from ganger.core.errors import BadInput
from ganger.core.graph import Edge, Join, On
from ganger.core.ids import QueueId, TaskId
from ganger.core.task import Kind, NewTask
from ganger.wire.specs import ConditionSpec, decode

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


class Condition(GraphTask[None]):
    """A condition of a graph. In `after` it stands for either answer, its `then` and `otherwise` for one of them."""

    @property
    def then(self) -> Ending:
        """For `after`: only if it is true."""
        return Ending(self, On.THEN)

    @property
    def otherwise(self) -> Ending:
        """For `after`: only if it is not true; for a wait, not before its deadline."""
        return Ending(self, On.ELSE)


Parents = Mapping[str, Referable | Ending]
Branch = GraphTask[Any] | Call[Any] | Iterable[GraphTask[Any] | Call[Any]]


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
        self, argv: Sequence[str], *, after: After = (), join: str = Join.ALL, **wishes: Unpack[CommandWishes]
    ) -> GraphTask[int]:
        """A program and its arguments."""
        return self.add(command(argv, **wishes), after=after, join=join)

    def shell(
        self, script: str, *, after: After = (), join: str = Join.ALL, **wishes: Unpack[CommandWishes]
    ) -> GraphTask[int]:
        """A bash script."""
        return self.add(shell(script, **wishes), after=after, join=join)

    def when(
        self,
        *,
        after: After = (),
        parents: Parents | None = None,
        then: Branch = (),
        otherwise: Branch = (),
        **question: Unpack[Question],
    ) -> "Condition":
        """Ask once, when `after` has come, and choose: `then` goes on, or `otherwise`; the other one is skipped.

        `parents` are waited for too, and are known to an expression by these names.
        """
        condition = self._ask(when(**question), after, parents or {})
        self._lead(condition, (then, otherwise))
        return condition

    def wait_until(
        self,
        *,
        after: After = (),
        parents: Parents | None = None,
        then: Branch = (),
        otherwise: Branch = (),
        **question: Unpack[Wait],
    ) -> "Condition":
        """Ask until it is true: then `then` goes on. At the deadline it fails, or `otherwise` goes on if that is given.

        `parents` are waited for too, and are known to an expression by these names.
        """
        condition = self._ask(wait_until(**question), after, parents or {})
        self._lead(condition, (then, otherwise))
        return condition

    def _ask(self, call: Call[None], after: After, parents: Parents, join: str = Join.ALL) -> "Condition":
        assert isinstance(call.spec, ConditionSpec)
        named = {name: one if isinstance(one, Ending) else Ending(one) for name, one in parents.items()}
        endings = [*_endings(after), *named.values()]
        self._check([ending.task for ending in endings])
        edges = {ending.task.number: ending.on for ending in endings}
        numbers = {name: ending.task.number for name, ending in named.items()}
        if len(edges) == 1:
            numbers.setdefault("parent", next(iter(edges)))
        made = ask_of(call.spec, numbers)
        parents_of = tuple(Edge(number, on) for number, on in edges.items())
        task = new_task(call, encode(made.spec).spec)._replace(parents=parents_of, join=join)
        self._append(Draft(call.options.queue, task, refers=bool(made.names), names=made.names), None)
        return Condition(self, len(self._drafts), None)

    def _lead(self, condition: "Condition", branches: tuple[Branch, Branch]) -> None:
        for branch, ending in zip(branches, (condition.then, condition.otherwise), strict=True):
            for one in [branch] if isinstance(branch, GraphTask | Call) else branch:
                if isinstance(one, Call):
                    self.add(one, after=ending)
                else:
                    self._link(one, ending)

    def _link(self, task: GraphTask[Any], ending: Ending) -> None:
        """Let a task of this graph wait for one more."""
        if task.graph is not self:
            raise BadInput("the branches of a condition are tasks of its own graph, or calls")
        place = -task.number - 1
        draft = self._drafts[place]
        edge = Edge(ending.task.number, ending.on)
        if any(other.parent == edge.parent for other in draft.task.parents):
            raise BadInput("this task waits for the condition already: a task is in one branch, or behind both")
        self._drafts[place] = draft._replace(task=draft.task._replace(parents=(*draft.task.parents, edge)))

    def add(
        self, call: Call[T], *, after: After = (), join: str = Join.ALL, waits_for_arguments: bool = True
    ) -> GraphTask[T]:
        """Any call. Without `waits_for_arguments` only those in `after` are waited for."""
        if isinstance(call.spec, ConditionSpec):
            return cast("GraphTask[T]", self._ask(cast("Call[None]", call), after, {}, join))
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
        doubted = {edge.parent for draft in self._drafts for edge in draft.task.parents if edge.on == On.ELSE}
        return [
            _with_otherwise(draft) if draft.task.kind == Kind.CONDITION and -place in doubted else draft
            for place, draft in enumerate(self._drafts, 1)
        ]

    def _refuse_sealed(self) -> None:
        if self.ids is not None:
            raise BadInput("this graph has been submitted: nothing can be added to it; make another")

    def _check(self, tasks: Sequence[Referable]) -> None:
        for task in tasks:
            if task.number < 0 and not self._is_inside((task,)):
                raise BadInput("a task of another graph, which has not been submitted, cannot be waited for")

    def _is_inside(self, tasks: Sequence[Referable]) -> bool:
        return any(isinstance(task, GraphTask) and task.graph is self for task in tasks)


def _with_otherwise(draft: Draft) -> Draft:
    """A condition that has children for a no: its deadline is a no, not a failure."""
    spec: ConditionSpec = decode(draft.task.spec, ConditionSpec)
    return draft._replace(task=draft.task._replace(spec=encode(msgspec.structs.replace(spec, otherwise=True)).spec))


def _endings(after: After) -> list[Ending]:
    if isinstance(after, Ending):
        return [after]
    if isinstance(after, Referable):
        return [Ending(after)]
    return [one if isinstance(one, Ending) else Ending(one) for one in after]
