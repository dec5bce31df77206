"""An app: where functions become tasks, and from where tasks are submitted."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack, overload

from ganger.client.bridge import Bridge
from ganger.client.calls import NO_LIMITS, Call, command, draft, shell
from ganger.client.function import Function, Mode
from ganger.client.graph import Graph, Group
from ganger.client.handle import AsyncHandle, Handle
from ganger.client.options import Options, Span, Wishes
from ganger.core.ids import TaskId
from ganger.wire.specs import Limits

P = ParamSpec("P")
T = TypeVar("T")


class App:
    """The door of the SDK over one transport, which is opened at the first use. Safe for any thread and any loop."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge

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
    def task(self, function: Callable[P, Coroutine[Any, Any, T]], /) -> Function[P, Coroutine[Any, Any, T], T]: ...

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
        return self._handles(calls, self.bridge.run(lambda transport: transport.submit(drafts)))

    async def asend(self, calls: Sequence[Call[T]]) -> list[Handle[T]]:
        """As `send`, from async code."""
        drafts = [draft(call) for call in calls]
        return self._handles(calls, await self.bridge.arun(lambda transport: transport.submit(drafts)))

    def _handles(self, calls: Sequence[Call[T]], ids: Sequence[TaskId]) -> list[Handle[T]]:
        return [Handle(self.bridge, task, call.returns) for task, call in zip(ids, calls, strict=True)]

    def handle(self, task: int) -> Handle[Any]:
        """A handle of a task that is known by its id."""
        return Handle(self.bridge, TaskId(task))

    def wait(self, handles: Iterable[Handle[Any] | AsyncHandle[Any]], timeout: float | None = None) -> bool:
        """Wait until all of these have ended: True; or until the time (seconds) is up: False."""
        ids = [handle.id for handle in handles]
        return self.bridge.run(lambda transport: transport.wait(ids, timeout))

    async def async_wait(self, handles: Iterable[Handle[Any] | AsyncHandle[Any]], timeout: float | None = None) -> bool:
        """As `wait`, from async code."""
        ids = [handle.id for handle in handles]
        return await self.bridge.arun(lambda transport: transport.wait(ids, timeout))

    def command(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        merge: bool = False,
        limits: Limits = NO_LIMITS,
        grace: Span = 5_000,
        **wishes: Unpack[Wishes],
    ) -> Handle[int]:
        """Submit a program and its arguments, to be run without a shell."""
        call = command(argv, cwd=cwd, env=env, stdin=stdin, merge=merge, limits=limits, grace=grace, **wishes)
        return self.send([call])[0]

    def shell(
        self,
        script: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        merge: bool = False,
        limits: Limits = NO_LIMITS,
        grace: Span = 5_000,
        **wishes: Unpack[Wishes],
    ) -> Handle[int]:
        """Submit a bash script."""
        call = shell(script, cwd=cwd, env=env, stdin=stdin, merge=merge, limits=limits, grace=grace, **wishes)
        return self.send([call])[0]

    def graph(self) -> Graph:
        """Tasks that wait for each other: `with app.graph() as g:` submits them together at its end."""
        return Graph(self.bridge)

    def group(self, calls: Iterable[Call[T]], *, then: Function[..., Any, Any] | None = None) -> Group[T]:
        """Submit calls that are waited for as one.

        `then` is called with the list of their results when all have ended: None in the place of one without a result.
        """
        with self.graph() as graph:
            parts = _Parts(graph, calls, then)
        return parts.group()

    async def enqueue_group(self, calls: Iterable[Call[T]], *, then: Function[..., Any, Any] | None = None) -> Group[T]:
        """As `group`, from async code."""
        async with self.graph() as graph:
            parts = _Parts(graph, calls, then)
        return parts.group()


class _Parts:
    """The tasks of a group while it is made."""

    def __init__(self, graph: Graph, calls: Iterable[Call[Any]], then: Function[..., Any, Any] | None) -> None:
        self._members = [graph.add(call) for call in calls]
        self._whole = graph.group(self._members)
        self._then = None
        if then is not None:
            call = then.prepare([[member.result for member in self._members]], {})
            self._then = graph.add(call, after=self._whole.finished, waits_for_arguments=False)

    def group(self) -> Group[Any]:
        members = [member.handle for member in self._members]
        return Group(self._whole.handle, members, None if self._then is None else self._then.handle)


class _Decorator:
    """`@app.task(queue="mail")`: the options are known, the function comes."""

    def __init__(self, app: App, options: Options, mode: Mode | None) -> None:
        self._app = app
        self._options = options
        self._mode = mode

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, T]]) -> Function[P, Coroutine[Any, Any, T], T]: ...

    @overload
    def __call__(self, function: Callable[P, T]) -> Function[P, T, T]: ...

    def __call__(self, function: Callable[..., Any]) -> Any:
        return Function(self._app, function, self._options, self._mode)
