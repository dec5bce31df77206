"""Traces of nodes reach a collector, each in the trace of the request that added it."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.protocol.v1.harness import Site, command, serve

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADER = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator["Queue[Any]"]:
    """The spans that a collector on loopback was sent."""
    spans: Queue[Any] = Queue()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name is the library's
            body = self.rfile.read(int(self.headers["content-length"]))
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        spans.put(span)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    yield spans
    server.shutdown()
    thread.join(10)
    server.server_close()


async def add(site: Site, **header: str) -> str:
    reply = await site.ask("POST", "/v1/nodes", command(), headers=header)
    assert reply.status_code == 201
    return str(reply.json()[0]["id"])


def test_the_spans_of_a_node_reach_the_collector(collected: "Queue[Any]") -> None:
    async def tell() -> None:
        async with serve(traces="otlp") as site:
            node = await add(site, **HEADER)
            assert (await site.get(f"/v1/nodes/{node}"))["data"]["traceparent"] == HEADER["traceparent"]
            await site.fail(node, 7)
            await site.get(f"/v1/scheduler/wait?id={node}")

    asyncio.run(tell())
    spans = [collected.get(timeout=20) for _ in range(5)]
    assert {span.name for span in spans} == {"task", "wait", "claim", "run", "settle"}
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    (root,) = [span for span in spans if span.name == "task"]
    assert root.parent_span_id.hex() == SPAN
    assert {span.parent_span_id for span in spans if span is not root} == {root.span_id}


def test_nothing_is_kept_or_sent_unless_it_is_asked_for(collected: "Queue[Any]") -> None:
    async def tell() -> None:
        async with serve() as site:
            node = await add(site, **HEADER)
            assert "traceparent" not in (await site.get(f"/v1/nodes/{node}"))["data"]
            await site.finish(node)

    asyncio.run(tell())
    assert collected.empty()
