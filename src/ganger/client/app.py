"""An app: where functions become tasks, and from where tasks are submitted."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, ParamSpec, Self, TypeVar, Unpack, overload

from ganger.client.bridge import Bridge
from ganger.client.calls import Call, command, draft, shell
from ganger.client.conditions import Question, Wait
from ganger.client.function import Function, Mode
from ganger.client.graph import Graph, Parents
from ganger.client.groups import Calls, Choice, ChoiceParts, Group, GroupParts
from ganger.client.handle import AsyncHandle, Handle
from ganger.client.options import CommandWishes, Options, Wishes, refuse_strangers
from ganger.client.queues import QueueWishes, read_wishes
from ganger.client.schedules import Check, FunctionTiming, ScheduleDecorator, Timetable, Timing, read_timing
from ganger.client.tail import EventTail
from ganger.client.transport import Draft, Synced, TaskEvent, Transport
from ganger.core import names
from ganger.core.ids import TaskId
from ganger.core.schedule import Schedule
from ganger.core.schedule import check as check_schedule
from ganger.core.span import Span, to_ms, to_seconds

P = ParamSpec("P")
T = TypeVar("T")
Handles = Iterable[Handle[Any] | AsyncHandle[Any]]
DEFAULT_NAME: Final = "app"


class App:
    """The door of the SDK over one transport, which is opened at the first use. Safe for any thread and any loop.

    `name` is whose the schedules are that it declares; `check` refuses those that make no sense.
    """

    def __init__(self, bridge: Bridge, name: str = DEFAULT_NAME, check: Check = check_schedule) -> None:
        self.bridge = bridge
        self.name = names.check("app", name)
        self.schedules = Timetable(check)

    @property
    def file(self) -> Path | None:
        """The database file that the transport opens in this process, if it does that."""
        return None

    def close(self) -> None:
        """Let go of the store. The next use opens it again."""
        self.bridge.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Function[P, Coroutine[object, object, T], T]: ...

    @overload
    def task(self, function: Callable[P, T], /) -> Function[P, T, T]: ...

    @overload
    def task(self, /, *, mode: Mode | None = None, **wishes: Unpack[Wishes]) -> "_Decorator": ...

    def task(
        self, function: Callable[..., Any] | None = None, /, *, mode: Mode | None = None, **wishes: Unpack[Wishes]
    ) -> Any:
        """Make a function one that can be submitted. `mode` says where a node runs it; None leaves that to the node."""
        decorator = _Decorator(self, Options(**wishes), mode)
        return decorator if function is None else decorator(function)

    def send(self, calls: Sequence[Call[T]]) -> list[Handle[T]]:
        """Submit calls, all or none; they are stored when this returns."""
        drafts = [draft(call) for call in calls]
        posted = self.bridge.run(lambda far: _submit(far, drafts), lambda far: far.post_now(drafts))
        if len(calls) == 1:
            return [Handle(self.bridge, lambda: posted()[0], calls[0].returns)]
        return self._handles(calls, posted())

    async def asend(self, calls: Sequence[Call[T]]) -> list[Handle[T]]:
        """As `send`, from async code."""
        drafts = [draft(call) for call in calls]
        return self._handles(calls, await self.bridge.arun(lambda transport: transport.submit(drafts)))

    def _handles(self, calls: Sequence[Call[T]], ids: Sequence[TaskId]) -> list[Handle[T]]:
        return [Handle(self.bridge, task, call.returns) for task, call in zip(ids, calls, strict=True)]

    def handle(self, task: int) -> Handle[Any]:
        """A handle of a task that is known by its id."""
        return Handle(self.bridge, TaskId(task))

    def wait(self, handles: Handles, timeout: Span | None = None, *, through_hold: bool = False) -> bool:
        """Wait until all of these have ended: True; or until the time is up: False.

        Raises TaskHeld when all that have not ended are held, unless `through_hold`.
        """
        ids = [handle.id for handle in handles]
        seconds = to_seconds(timeout, "timeout")
        return self.bridge.run(lambda transport: transport.wait(ids, seconds, through_hold=through_hold))

    async def async_wait(self, handles: Handles, timeout: Span | None = None, *, through_hold: bool = False) -> bool:
        """As `wait`, from async code."""
        ids = [handle.id for handle in handles]
        seconds = to_seconds(timeout, "timeout")
        return await self.bridge.arun(lambda transport: transport.wait(ids, seconds, through_hold=through_hold))

    def command(self, argv: Sequence[str], **wishes: Unpack[CommandWishes]) -> Handle[int]:
        """Submit a program and its arguments, to be run without a shell."""
        return self.send([command(argv, **wishes)])[0]

    def shell(self, script: str, **wishes: Unpack[CommandWishes]) -> Handle[int]:
        """Submit a bash script."""
        return self.send([shell(script, **wishes)])[0]

    def graph(self) -> Graph:
        """Tasks that wait for each other: `with app.graph() as g:` submits them together at its end."""
        return Graph(self.bridge)

    def group(self, calls: Iterable[Call[T]], *, then: Function[..., Any, Any] | None = None) -> Group[T]:
        """Submit calls that are waited for as one.

        `then` is called with the list of their results when all have ended: None in the place of one without a result.
        """
        with self.graph() as graph:
            parts = GroupParts(graph, calls, then)
        return parts.group()

    async def enqueue_group(self, calls: Iterable[Call[T]], *, then: Function[..., Any, Any] | None = None) -> Group[T]:
        """As `group`, from async code."""
        async with self.graph() as graph:
            parts = GroupParts(graph, calls, then)
        return parts.group()

    def when(
        self,
        *,
        parents: Parents | None = None,
        then: Calls = (),
        otherwise: Calls = (),
        **question: Unpack[Question],
    ) -> Choice:
        """Submit a condition that is asked once, and the calls that follow a yes or a no. See `Graph.when`."""
        with self.graph() as graph:
            parts = ChoiceParts(graph, graph.when(parents=parents, **question), then, otherwise)
        return parts.choice()

    async def enqueue_when(
        self,
        *,
        parents: Parents | None = None,
        then: Calls = (),
        otherwise: Calls = (),
        **question: Unpack[Question],
    ) -> Choice:
        """As `when`, from async code."""
        async with self.graph() as graph:
            parts = ChoiceParts(graph, graph.when(parents=parents, **question), then, otherwise)
        return parts.choice()

    def wait_until(
        self,
        *,
        parents: Parents | None = None,
        then: Calls = (),
        otherwise: Calls = (),
        **question: Unpack[Wait],
    ) -> Choice:
        """Submit a condition that is asked until it is true, and the calls that follow. See `Graph.wait_until`."""
        with self.graph() as graph:
            parts = ChoiceParts(graph, graph.wait_until(parents=parents, **question), then, otherwise)
        return parts.choice()

    async def enqueue_wait_until(
        self,
        *,
        parents: Parents | None = None,
        then: Calls = (),
        otherwise: Calls = (),
        **question: Unpack[Wait],
    ) -> Choice:
        """As `wait_until`, from async code."""
        async with self.graph() as graph:
            parts = ChoiceParts(graph, graph.wait_until(parents=parents, **question), then, otherwise)
        return parts.choice()

    def set_queue(self, name: str, **wishes: Unpack[QueueWishes]) -> None:
        """Make a queue if it is not there, and say how its tasks are handed out; what is not given stays as it is."""
        changes = read_wishes(wishes)
        self.bridge.run(lambda transport: transport.set_queue(name, changes))

    async def async_set_queue(self, name: str, **wishes: Unpack[QueueWishes]) -> None:
        """As `set_queue`, from async code."""
        changes = read_wishes(wishes)
        await self.bridge.arun(lambda transport: transport.set_queue(name, changes))

    def events(self, after: int | None = None) -> Generator[TaskEvent, None, None]:
        """What happens, as it happens, for ever: behind this position, or from now on."""
        tail = EventTail(after)
        try:
            while True:
                yield self.bridge.run(tail.take)
        finally:
            self.bridge.run(tail.close)

    async def async_events(self, after: int | None = None) -> AsyncGenerator[TaskEvent, None]:
        """As `events`, from async code. Close it when leaving early."""
        tail = EventTail(after)
        try:
            while True:
                yield await self.bridge.arun(tail.take)
        finally:
            await self.bridge.arun(tail.close)

    def cron(self, text: str, **said: Unpack[FunctionTiming]) -> ScheduleDecorator:
        """Declare that a function is called at these times: `@app.cron("30 2 * * *", tz="Europe/Berlin")`.

        The text is minute, hour, day, month and weekday, or `@hourly` and its like. Nothing is stored before
        `sync_schedules`.
        """
        return ScheduleDecorator(self, self.schedules, {"cron": text}, said)

    def every(self, interval: Span, **said: Unpack[FunctionTiming]) -> ScheduleDecorator:
        """Declare that a function is called again after each such time, counted from when it is stored first."""
        return ScheduleDecorator(self, self.schedules, {"every": to_ms(interval, "interval")}, said)

    def schedule(
        self,
        name: str,
        call: Call[Any],
        *,
        cron: str | None = None,
        every: Span | None = None,
        **timing: Unpack[Timing],
    ) -> None:
        """Declare that a call of any kind is submitted again and again."""
        refuse_strangers(timing, Timing)
        interval = None if every is None else to_ms(every, "every")
        self.schedules.add(Schedule(name, **read_timing(timing, cron=cron, every=interval)), call)

    def sync_schedules(self, *, remove: bool = False) -> Synced:
        """Write the schedules that this app declares to the store: new ones, and those that have changed.

        One that it declared once and declares no more is reported as `gone` and goes on, unless `remove`. Raises
        DuplicateKey if a name is somebody else's. Call it when all modules that declare some have been imported.
        """
        plans = list(self.schedules)
        return self.bridge.run(lambda transport: transport.sync_schedules(plans, self.name, remove=remove))

    async def async_sync_schedules(self, *, remove: bool = False) -> Synced:
        """As `sync_schedules`, from async code."""
        plans = list(self.schedules)
        return await self.bridge.arun(lambda transport: transport.sync_schedules(plans, self.name, remove=remove))


async def _submit(transport: Transport, drafts: Sequence[Draft]) -> Callable[[], list[TaskId]]:
    ids = await transport.submit(drafts)
    return lambda: ids


class _Decorator:
    """`@app.task(queue="mail")`: the options are known, the function comes."""

    def __init__(self, app: App, options: Options, mode: Mode | None) -> None:
        self._app = app
        self._options = options
        self._mode = mode

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]]
    ) -> Function[P, Coroutine[object, object, T], T]: ...

    @overload
    def __call__(self, function: Callable[P, T]) -> Function[P, T, T]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        return Function(self._app, function, self._options, self._mode)
