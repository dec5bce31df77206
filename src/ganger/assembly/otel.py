"""Spans for OpenTelemetry: where they go is said by its own variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and the like)."""

from importlib.metadata import version
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ganger.engine.tracing import CONTEXT, Span

_MILLISECOND: Final = 1_000_000


class _GivenNumbers(IdGenerator):
    """Gives the span that is about to be made the numbers that it has already."""

    span = trace = 0

    def generate_span_id(self) -> int:
        return self.span

    def generate_trace_id(self) -> int:
        return self.trace


class OpenTelemetry:
    """Hands spans to a processor, which sends them from a thread of its own. Close it at the end."""

    def __init__(self, processor: SpanProcessor) -> None:
        resource = Resource.create({"service.name": "ganger", "service.version": version("ganger")})
        self._numbers = _GivenNumbers()
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False, id_generator=self._numbers)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("ganger")
        self._propagator = TraceContextTextMapPropagator()

    def trace(self, span: Span, context: str | None) -> None:
        self._tell(span, None if context is None else self._propagator.extract({CONTEXT: context}))

    def _tell(self, span: Span, context: object) -> None:
        self._numbers.span, self._numbers.trace = span.id, span.trace
        told = self._tracer.start_span(
            span.name,
            context=context,  # type: ignore[arg-type]
            start_time=span.start * _MILLISECOND,
            attributes=dict(span.attributes),
        )
        if span.error is not None:
            told.set_status(Status(StatusCode.ERROR, span.error))
        for below in span.below:
            self._tell(below, set_span_in_context(told))
        told.end(span.end * _MILLISECOND)

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def open_exporter() -> OpenTelemetry:
    return OpenTelemetry(BatchSpanProcessor(OTLPSpanExporter()))
