"""Traces of tasks, where the settings ask for them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from ganger.assembly.registry import load_exporter
from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput, GangerError
from ganger.core.ids import Fence, TaskId
from ganger.engine.engine import Engine
from ganger.engine.tracing import CONTEXT, Numbers, Tracing, find_context, tell_context
from ganger.runtime.faults import name_fault
from ganger.runtime.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from ganger.assembly.otel import OpenTelemetry

OTLP: Final = "otlp"
_PATIENCE: Final = 5.0
_REST: Final = 2.0


@asynccontextmanager
async def trace_tasks(settings: Settings, engine: Engine, telemetry: Telemetry = SILENT) -> AsyncIterator[None]:
    """Trace each task that ends until the end of the context, if that is wanted."""
    if not settings.traces:
        yield
        return
    _check(settings)
    exporter = load_exporter()
    tracing = Tracing(engine, exporter, telemetry)
    await tracing.start()
    try:
        yield
    finally:
        await tracing.stop()
        await _trace_rest(tracing, telemetry)
        await _close(exporter)


def _check(settings: Settings) -> None:
    if settings.traces != OTLP:
        raise BadInput(f"traces is {settings.traces!r:.40}; write otlp, or nothing for none", field="traces")


def trace_attempts(
    settings: Settings, engine: Engine, telemetry: Telemetry = SILENT
) -> Callable[[TaskId, Fence], Awaitable[Mapping[str, str]]] | None:
    """How an attempt is told its trace, if that is wanted: in the variable that instrumented programs look for."""
    if not settings.traces:
        return None
    _check(settings)

    async def tell(task: TaskId, fence: Fence) -> Mapping[str, str]:
        try:
            numbers = Numbers((await engine.store.directory()).tag, task)
            return {CONTEXT.upper(): tell_context(numbers, fence, await find_context(engine, task))}
        except GangerError as error:
            # No work is put off for the sake of its trace.
            telemetry.event("trace_not_told", task=task, error=name_fault(error))
            return {}

    return tell


async def _trace_rest(tracing: Tracing, telemetry: Telemetry) -> None:
    """Look at what has ended just now, for a moment at most: no stop is put off for the sake of a trace."""
    try:
        async with asyncio.timeout(_REST):
            await tracing.trace_rest()
    except (TimeoutError, GangerError) as error:
        telemetry.event("traces_left_out", error=name_fault(error))


async def _close(exporter: "OpenTelemetry") -> None:
    """Send what is left, unless nobody takes it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            await asyncio.to_thread(exporter.close)
