"""A task that was submitted, in the hands of whoever wants to know what becomes of it."""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing
from typing import Any, Final, Generic, TypeVar

import msgspec

from ganger.client.bridge import Bridge
from ganger.client.references import Referable
from ganger.client.tail import Tail
from ganger.client.transport import Transport, Why
from ganger.core.errors import BadInput, TaskNotFound
from ganger.core.ids import TaskId
from ganger.core.span import Span, to_seconds
from ganger.core.state import LEASED, Status, status_of
from ganger.core.task import Kind, Task
from ganger.wire import values
from ganger.wire.unreadable import UNREADABLE

T = TypeVar("T")
_STREAMS: Final = ("stdout", "stderr", "log")
_MIXED: Final = "mixedout"


class TaskFailed(Exception):
    """The task ended otherwise than by success. `reason` is what it left: the traceback of a function, as text.

    `exit_code` is that of a command or script, None if it has none.
    """

    def __init__(self, task: TaskId, status: int, reason: str | None, exit_code: int | None = None) -> None:
        super().__init__(task, status, reason, exit_code)
        self.task = task
        self.code = status
        self.reason = reason
        self.exit_code = exit_code

    @property
    def status(self) -> Status | None:
        """How it ended; None for a code that a stranger set."""
        return status_of(self.code)

    def __str__(self) -> str:
        status = self.status
        word = "has an unknown status" if status is None else f"ended {status.name.lower()}"
        return f"task {self.task} {word}" + (f":\n{self.reason}" if self.reason else "")


class AsyncHandle(Referable, Generic[T]):
    """A submitted task, for async code. `await handle` is its result. As an argument of a call it is its result too."""

    def __init__(self, bridge: Bridge, task: TaskId, returns: Any = Any) -> None:
        self._bridge = bridge
        self._returns = returns
        self.id = task

    def __repr__(self) -> str:
        return f"<task {self.id}>"

    @property
    def number(self) -> int:
        return self.id

    @property
    def blocking(self) -> "Handle[T]":
        """The same task, for code that blocks."""
        return Handle(self._bridge, self.id, self._returns)

    def __await__(self) -> Generator[Any, None, T]:
        return self.result().__await__()

    async def wait(self, timeout: Span | None = None, *, through_hold: bool = False) -> bool:
        """Wait until it has ended: True; or until the time is up: False.

        Raises TaskHeld when it is held, because that may last for ever, unless `through_hold`.
        """
        seconds = to_seconds(timeout, "timeout")
        return await self._bridge.arun(lambda transport: transport.wait([self.id], seconds, through_hold=through_hold))

    async def result(self, timeout: Span | None = None, *, through_hold: bool = False) -> T:
        """What it returned. Raises TaskFailed, TimeoutError if the time is up first, TaskNotFound.

        Raises TaskHeld when it is held, unless `through_hold`.
        """
        seconds = to_seconds(timeout, "timeout")
        body = await self._bridge.arun(lambda transport: _read_result(transport, self.id, seconds, through_hold))
        return _convert(body, self._returns)  # type: ignore[no-any-return]

    async def task(self) -> Task:
        """All that is known of it, or TaskNotFound."""
        return await self._bridge.arun(lambda transport: _look(transport, self.id))

    async def status(self) -> Status | None:
        """Where it is in its life; None for a code that a stranger set."""
        return status_of((await self.task()).status)

    async def logs(self, stream: str | None = None) -> str:
        """What it has printed so far: one stream, or all there is."""
        return await self._bridge.arun(lambda transport: _read_logs(transport, self.id, stream))

    async def follow(self, stream: str | None = None) -> AsyncGenerator[str, None]:
        """What it prints, as it comes, until it has ended: one stream, or all of them. Close it when leaving early."""
        tail = Tail(self.id, _STREAMS if stream is None else (stream,))
        try:
            while (text := await self._bridge.arun(tail.take)) is not None:
                yield text
        finally:
            await self._bridge.arun(tail.close)

    async def cancel(self) -> bool:
        """End it if it waits. False: it runs, or has ended."""
        return bool(await self._bridge.arun(lambda transport: transport.cancel([self.id])))

    async def kill(self) -> bool:
        """End it, running or not. False: it had ended."""
        return bool(await self._bridge.arun(lambda transport: transport.kill([self.id])))

    async def why(self) -> Why:
        """Why it is where it is."""
        return await self._bridge.arun(lambda transport: transport.explain(self.id))


class Handle(Referable, Generic[T]):
    """A submitted task. Each of its methods blocks; `await handle.aio` and its like are for async code.

    It can not be awaited itself, so that those who want no answer may drop it.
    """

    def __init__(self, bridge: Bridge, task: TaskId | Callable[[], TaskId], returns: Any = Any) -> None:
        self._bridge = bridge
        self._returns = returns
        self._task = task

    @property
    def id(self) -> TaskId:
        """Its number. A task that was handed in a moment ago may not have one yet: then this waits for it."""
        if callable(self._task):
            self._task = self._task()
        return self._task

    def __repr__(self) -> str:
        return f"<task {self.id}>"

    @property
    def number(self) -> int:
        return self.id

    @property
    def aio(self) -> AsyncHandle[T]:
        """The same task, for async code."""
        return AsyncHandle(self._bridge, self.id, self._returns)

    def wait(self, timeout: Span | None = None, *, through_hold: bool = False) -> bool:
        """Wait until it has ended: True; or until the time is up: False.

        Raises TaskHeld when it is held, because that may last for ever, unless `through_hold`.
        """
        seconds = to_seconds(timeout, "timeout")
        return self._bridge.run(lambda transport: transport.wait([self.id], seconds, through_hold=through_hold))

    def result(self, timeout: Span | None = None, *, through_hold: bool = False) -> T:
        """What it returned. Raises TaskFailed, TimeoutError if the time is up first, TaskNotFound.

        Raises TaskHeld when it is held, unless `through_hold`.
        """
        seconds = to_seconds(timeout, "timeout")
        body = self._bridge.run(lambda transport: _read_result(transport, self.id, seconds, through_hold))
        return _convert(body, self._returns)  # type: ignore[no-any-return]

    def task(self) -> Task:
        """All that is known of it, or TaskNotFound."""
        return self._bridge.run(lambda transport: _look(transport, self.id))

    @property
    def status(self) -> Status | None:
        """Where it is in its life; None for a code that a stranger set."""
        return status_of(self.task().status)

    def logs(self, stream: str | None = None) -> str:
        """What it has printed so far: one stream, or all there is."""
        return self._bridge.run(lambda transport: _read_logs(transport, self.id, stream))

    def follow(self, stream: str | None = None) -> Generator[str, None, None]:
        """What it prints, as it comes, until it has ended: one stream, or all of them."""
        tail = Tail(self.id, _STREAMS if stream is None else (stream,))
        try:
            while (text := self._bridge.run(tail.take)) is not None:
                yield text
        finally:
            self._bridge.run(tail.close)

    def cancel(self) -> bool:
        """End it if it waits. False: it runs, or has ended."""
        return bool(self._bridge.run(lambda transport: transport.cancel([self.id])))

    def kill(self) -> bool:
        """End it, running or not. False: it had ended."""
        return bool(self._bridge.run(lambda transport: transport.kill([self.id])))

    def why(self) -> Why:
        """Why it is where it is."""
        return self._bridge.run(lambda transport: transport.explain(self.id))


async def _look(transport: Transport, task: TaskId) -> Task:
    found = (await transport.tasks([task]))[0]
    if found is None:
        raise TaskNotFound(f"there is no task {task} (any more)", task=task)
    return found


async def _read_result(transport: Transport, task: TaskId, timeout: float | None, through_hold: bool) -> bytes:
    if not await transport.wait([task], timeout, through_hold=through_hold):
        raise TimeoutError(f"task {task} has not ended within {timeout:g} s: {await _tell_why(transport, task)}")
    found = await _look(transport, task)
    if found.status != Status.SUCCEEDED:
        raise TaskFailed(task, found.status, found.reason, await _read_exit(transport, found))
    body = bytearray()
    while (piece := await transport.read_data(task, "result", len(body))).body:
        body += piece.body
    return bytes(body)


async def _tell_why(transport: Transport, task: TaskId) -> str:
    """Where it is, and what keeps it there, in a line."""
    why = await transport.explain(task)
    return "; ".join([f"it is {why.status}", *(reason.sentence for reason in why.reasons)])


async def _read_exit(transport: Transport, found: Task) -> int | None:
    """What a command exited with; None for what is no command, or never exited."""
    if found.kind not in (Kind.COMMAND, Kind.SHELL):
        return None
    said = (await transport.read_data(found.id, "result", 0)).body
    return int(said) if said.isdigit() else None


async def _read_logs(transport: Transport, task: TaskId, stream: str | None) -> str:
    if (await _look(transport, task)).status in LEASED:
        return await _read_so_far(transport, task, _STREAMS if stream is None else (stream,))
    if stream is not None:
        return await _read_stream(transport, task, stream)
    if mixed := await _read_stream(transport, task, _MIXED):
        return mixed
    return "".join([await _read_stream(transport, task, one) for one in _STREAMS])


async def _read_so_far(transport: Transport, task: TaskId, streams: Sequence[str]) -> str:
    bodies = {stream: bytearray() for stream in streams}
    async with aclosing(transport.follow_output(task, streams, so_far=True)) as pieces:
        async for stream, body in pieces:
            bodies[stream] += body
    return "".join(body.decode("utf-8", "backslashreplace") for body in bodies.values())


async def _read_stream(transport: Transport, task: TaskId, stream: str) -> str:
    body = bytearray()
    while (piece := await transport.read_output(task, stream, len(body))).body:
        body += piece.body
    return body.decode("utf-8", "backslashreplace")


def _convert(body: bytes, returns: Any) -> Any:
    """The result from JSON, in the type that the function says it returns if that is one that can be made."""
    try:
        value = values.decode(body)
    except UNREADABLE as error:
        raise BadInput(f"the result is not JSON: {error}") from None
    try:
        return values.convert(value, returns)
    except (TypeError, msgspec.ValidationError):
        # A type that nobody can build from JSON, or an annotation that the function does not keep.
        return value
