"""Traces of tasks, where the settings ask for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from ganger.assembly.registry import load_exporter
from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput
from ganger.engine.engine import Engine
from ganger.engine.tracing import Tracing
from ganger.runtime.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from ganger.assembly.otel import OpenTelemetry

OTLP: Final = "otlp"
_PATIENCE: Final = 5.0


@asynccontextmanager
async def trace_tasks(settings: Settings, engine: Engine, telemetry: Telemetry = SILENT) -> AsyncIterator[None]:
    """Trace each task that ends until the end of the context, if that is wanted."""
    if not settings.traces:
        yield
        return
    if settings.traces != OTLP:
        raise BadInput(f"traces is {settings.traces!r:.40}; write otlp, or nothing for none", field="traces")
    exporter = load_exporter()
    tracing = Tracing(engine, exporter, telemetry)
    await tracing.start()
    try:
        yield
    finally:
        await tracing.stop()
        await _close(exporter)


async def _close(exporter: "OpenTelemetry") -> None:
    """Send what is left, unless nobody takes it."""
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(exporter.close), _PATIENCE)
