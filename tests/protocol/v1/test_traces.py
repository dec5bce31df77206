"""Traces of nodes reach a collector, each in the trace of the request that added it."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ganger.assembly.node import NodeWishes, open_node
from ganger.assembly.server import open_server
from ganger.assembly.settings import Settings
from ganger.node.options import NodeOptions
from tests.protocol.doors import choose_store
from tests.protocol.v1.harness import LISTEN, PATIENCE, Site, command, serve

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
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    yield spans
    server.shutdown()
    thread.join(60)
    server.server_close()


async def receive(collected: "Queue[Any]", count: int) -> list[Any]:
    """So many spans, while the server that sends them runs."""
    return [await asyncio.to_thread(collected.get, timeout=PATIENCE) for _ in range(count)]


async def add(site: Site, **header: str) -> str:
    reply = await site.ask("POST", "/v1/nodes", command(), headers=header)
    assert reply.status_code == 201
    return str(reply.json()[0]["id"])


def test_the_spans_of_a_node_reach_the_collector(collected: "Queue[Any]") -> None:
    async def tell() -> list[Any]:
        async with serve(traces="otlp") as site:
            node = await add(site, **HEADER)
            assert (await site.get(f"/v1/nodes/{node}"))["data"]["traceparent"] == HEADER["traceparent"]
            await site.fail(node, 7)
            await site.get(f"/v1/scheduler/wait?id={node}")
            return await receive(collected, 5)

    spans = asyncio.run(tell())
    assert {span.name for span in spans} == {"task", "wait", "claim", "run", "settle"}
    assert {span.trace_id.hex() for span in spans} == {TRACE}
    (root,) = [span for span in spans if span.name == "task"]
    assert root.parent_span_id.hex() == SPAN
    assert {span.parent_span_id for span in spans if span is not root} == {root.span_id}


def test_a_command_is_told_the_span_that_its_run_will_be(collected: "Queue[Any]", tmp_path: Path) -> None:
    async def tell() -> tuple[str, list[Any]]:
        async with serve(tmp_path, node=True, traces="otlp") as site:
            body = {"metadata": {"type": "shell command"}, "data": {"command": "echo $TRACEPARENT"}}
            (node,) = (await site.ask("POST", "/v1/nodes", body, headers=HEADER)).json()
            await site.get(f"/v1/scheduler/wait?id={node['id']}")
            said = str((await site.get(f"/v1/nodes/{node['id']}/data/stdout"))["data"])
            return said.strip(), await receive(collected, 5)

    told, received = asyncio.run(tell())
    spans = {span.name: span for span in received}
    assert told == f"00-{TRACE}-{spans['run'].span_id.hex()}-01"


@pytest.mark.parametrize("function", ["tell_trace", "tell_trace_from_the_loop"])
def test_a_function_is_told_the_span_that_its_run_will_be(
    collected: "Queue[Any]", tmp_path: Path, function: str
) -> None:
    async def tell() -> tuple[str, list[Any]]:
        async with serve_functions(tmp_path) as site:
            body = {"metadata": {"type": "function"}, "data": {"path": f"tests.unit.node.chores:{function}"}}
            (node,) = (await site.ask("POST", "/v1/nodes", body, headers=HEADER)).json()
            await site.get(f"/v1/scheduler/wait?id={node['id']}")
            said = str((await site.get(f"/v1/nodes/{node['id']}/data/result"))["data"])
            return said, await receive(collected, 5)

    told, received = asyncio.run(tell())
    spans = {span.name: span for span in received}
    assert told == f"00-{TRACE}-{spans['run'].span_id.hex()}-01"


@asynccontextmanager
async def serve_functions(folder: Path) -> AsyncIterator[Site]:
    """A site with a node that runs functions."""
    settings = Settings(store=choose_store(folder), listen=LISTEN, traces="otlp", allow="tests.*")
    options = NodeOptions("here", slots=1, kinds=("function",))
    async with (
        asyncio.timeout(3 * PATIENCE),
        open_node(settings, options, NodeWishes(plugins=False, paths=(str(Path.cwd()),))) as opened,
        open_server(settings, opened.engine) as server,
    ):
        headers = {"authorization": f"Bearer {server.tokens.admin_path.read_text().strip()}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE) as client:
            yield Site(opened.engine, server, client)


def test_a_server_that_stops_sends_the_spans_of_what_has_just_ended(collected: "Queue[Any]") -> None:
    async def tell() -> None:
        async with serve(traces="otlp") as site:
            for node in [await add(site) for _ in range(3)]:
                await site.finish(node)

    asyncio.run(tell())
    names = Counter(span.name for span in collected.queue)
    assert names == dict.fromkeys(("task", "wait", "claim", "run", "settle"), 3)


def test_spans_that_are_sent_twice_are_the_same_spans(collected: "Queue[Any]") -> None:
    async def tell() -> list[Any]:
        settings = Settings(store="memory:", listen=LISTEN, traces="otlp")
        async with serve(traces="otlp") as site, open_server(settings, site.engine):
            await site.finish(await add(site))
            return await receive(collected, 10)

    spans = Counter((span.trace_id, span.span_id) for span in asyncio.run(tell()))
    assert len(spans) == 5
    assert set(spans.values()) == {2}
    assert len({trace for trace, _ in spans}) == 1


def test_nothing_is_kept_or_sent_unless_it_is_asked_for(collected: "Queue[Any]") -> None:
    async def tell() -> None:
        async with serve() as site:
            node = await add(site, **HEADER)
            assert "traceparent" not in (await site.get(f"/v1/nodes/{node}"))["data"]
            await site.finish(node)

    asyncio.run(tell())
    assert collected.empty()
