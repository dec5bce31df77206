"""The life of a task as spans: it was submitted, waited, ran (once for each attempt), and was settled.

Nothing is measured while tasks run: all times are in the store when a task has ended, and spans are made of them then.
So tasks that nobody traces cost nothing, and it does not matter which processes had a part in them. The trace that a
task belongs to is its value `traceparent`, as W3C writes it, given when it was submitted.

Traces and spans have numbers that follow from the store, the task and the attempt. So whoever runs can be told the span
that it will have been, long before that is drawn; and if several draw the same task, they draw the same spans.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from ganger.core.errors import TaskNotFound
from ganger.core.event import Event
from ganger.core.ids import Fence, Position, TaskId
from ganger.core.state import Status, is_final, status_of
from ganger.core.task import Attempt
from ganger.engine.engine import Engine
from ganger.engine.store import Look
from ganger.runtime.service import Service
from ganger.runtime.telemetry import SILENT, Telemetry

CONTEXT: Final = "traceparent"
_CONTEXT: Final = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_RUN: Final = "run"
_SPAN: Final = 8
_TRACE: Final = 16
Attributes = Mapping[str, str | int]


class Span(NamedTuple):
    """A stretch of time, wall clock. `below` are the spans inside of it; `trace` is its trace if it came with none."""

    id: int
    trace: int
    name: str
    start: int
    end: int
    attributes: Attributes
    error: str | None = None
    below: "tuple[Span, ...]" = ()


class Tracer(Protocol):
    """Whoever takes spans somewhere. It must not raise and must not wait."""

    def trace(self, span: Span, context: str | None) -> None:
        """A span that is whole, of that trace; of a new one without a context."""
        ...


def is_context(text: str) -> bool:
    """Is it a traceparent?"""
    return _CONTEXT.fullmatch(text) is not None


class Numbers(NamedTuple):
    """The numbers of the traces and spans of one task; `tag` is the store's own."""

    tag: int
    task: TaskId

    @property
    def trace(self) -> int:
        return self._number(_TRACE, "trace")

    def span(self, name: str, fence: Fence | None = None) -> int:
        return self._number(_SPAN, name if fence is None else f"{name} {fence}")

    def place(self, name: str, fence: Fence | None = None) -> tuple[int, int, str]:
        """Where a span belongs: its number, that of its trace, its name."""
        return self.span(name, fence), self.trace, name

    def _number(self, size: int, what: str) -> int:
        """Never 0, which is no number of a trace."""
        digest = blake2b(f"{self.tag} {self.task} {what}".encode(), digest_size=size).digest()
        return int.from_bytes(digest) or 1


def tell_context(numbers: Numbers, fence: Fence, context: str | None) -> str:
    """The traceparent of what an attempt does: it is below the span of its run."""
    version, trace, _, flags = context.split("-") if context else ("00", f"{numbers.trace:032x}", "", "01")
    return f"{version}-{trace}-{numbers.span(_RUN, fence):016x}-{flags}"


def draw(look: Look, queue: str, tag: int) -> Span:
    """The spans of a task that has ended."""
    task, numbers = look.task, Numbers(tag, look.task.id)
    end = task.ended or task.modified
    waits = _draw_waits(numbers, task.created, look.attempts)
    runs = [part for attempt in look.attempts for part in _draw_attempt(numbers, attempt)]
    status = status_of(task.status)
    attributes: dict[str, str | int] = {
        "ganger.task": int(task.id),
        "ganger.queue": queue,
        "ganger.kind": task.kind,
        "ganger.status": str(task.status) if status is None else status.name.lower(),
        "ganger.attempts": len(look.attempts),
    }
    error = None if task.status == Status.SUCCEEDED else task.reason or str(attributes["ganger.status"])
    return Span(*numbers.place("task"), task.created, max(end, task.created), attributes, error, (*waits, *runs))


def _draw_waits(numbers: Numbers, created: int, attempts: Sequence[Attempt]) -> list[Span]:
    """From the submission, or the end of the attempt before, to each claim."""
    begins = [created, *(attempt.ended for attempt in attempts)]
    return [
        Span(*numbers.place("wait", attempt.fence), begin, max(begin, attempt.claimed), {"ganger.fence": attempt.fence})
        for begin, attempt in zip(begins, attempts, strict=False)
    ]


def _draw_attempt(numbers: Numbers, attempt: Attempt) -> list[Span]:
    """It was claimed, and ran until it was settled."""
    said: dict[str, str | int] = {"ganger.fence": int(attempt.fence), "ganger.holder": attempt.holder}
    started = attempt.claimed if attempt.started is None else max(attempt.started, attempt.claimed)
    end = max(attempt.ended, started)
    error = None if attempt.outcome == "succeed" else attempt.reason or attempt.outcome
    told = {**said, "ganger.outcome": attempt.outcome, "ganger.code": attempt.code}
    claim, run, settle = (numbers.place(name, attempt.fence) for name in ("claim", _RUN, "settle"))
    return [
        Span(*claim, attempt.claimed, started, said),
        Span(*run, started, end, told, error),
        Span(*settle, end, end, told),
    ]


async def find_context(engine: Engine, task: TaskId) -> str | None:
    """The trace that a task came with. Raises StoreError, TaskNotFound."""
    context = (await engine.read_data(task, CONTEXT)).body.decode("ascii", "replace")
    return context if is_context(context) else None


class Tracing(Service):
    """Follows the facts from its start on, and traces each task that ends."""

    def __init__(self, engine: Engine, tracer: Tracer, telemetry: Telemetry = SILENT) -> None:
        super().__init__("tracing", telemetry=telemetry)
        self._engine = engine
        self._tracer = tracer
        self._after: Position | None = None

    async def run(self) -> None:
        known = await self._engine.store.directory()
        self._after = known.last_event if self._after is None else self._after
        async with aclosing(self._engine.subscribe(self._after)) as events:
            async for event in events:
                await self._follow(event, known.tag)

    async def trace_rest(self) -> None:
        """Trace what had ended when the loop was stopped, and was not looked at by then. Raises StoreError."""
        known = await self._engine.store.directory()
        while self._after is not None and self._after < known.last_event:
            page = await self._engine.events(self._after)
            for event in page:
                await self._follow(event, known.tag)
            if not page:
                return

    async def _follow(self, event: Event, tag: int) -> None:
        for entry in event.entries:
            if is_final(entry.status):
                await self._trace(entry.task, tag)
        self._after = event.position

    async def _trace(self, task: TaskId, tag: int) -> None:
        try:
            look = await self._engine.look(task)
            context = await find_context(self._engine, task)
            queue = await self._engine.queues.get(look.task.queue)
        except TaskNotFound:
            return
        self._tracer.trace(draw(look, queue.name, tag), context)
