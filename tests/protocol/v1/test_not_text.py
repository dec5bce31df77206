"""A body that is not UTF-8 is a bad request on every route: the table of routes says which there are."""

from pathlib import Path

from ganger.core.node import Registration
from ganger.faces.http.routes import Route
from ganger.wire.v1.remote import NODE_HEADER
from tests.protocol.v1.harness import Site, command, story_in

BODIES = (b"\xff\xfe", b'"\xff"', b'{"\xff": 1}', b'{"name": "\xff"}', b'[{"\xc3": []}]', b'{"x": "\xed\xa0\x80"}')
AS_JSON = {"content-type": "application/json"}
BODILESS = frozenset({"GET", "WEBSOCKET", "DELETE"})
OWN_JSON = ("/api/work/", "/disbatch/")
"""Doors whose bodies are JSON of no type that the table names."""


@story_in
async def test_a_body_that_is_not_utf_8_is_a_bad_request_on_every_route(site: Site, folder: Path) -> None:
    (node,) = await site.add(command())
    worker = await site.engine.nodes.register(Registration("by-hand", "secret"))
    await site.engine.queues.create("there", by="somebody")
    rows = [row for row in site.server.service.door.table.rows if row.method not in BODILESS]
    # Those without a body do what they are for, and the worker leaves.
    rows.sort(key=lambda row: row.body is None)
    told = [row for row in rows if row.body is not None or row.path.startswith(OWN_JSON)]

    answers = {
        (*_name(row), body): await send(site, row, body, node, str(worker.id)) for row in rows for body in BODIES
    }

    assert {(path, status) for (_, path, _), status in answers.items() if status >= 500} == set()
    said = {(row.path, answers[*_name(row), body]) for row in told for body in BODIES}
    assert {(path, status) for path, status in said if status != 400} == set()
    assert len(told) > 25


def _name(row: Route) -> tuple[str, str]:
    return row.method, row.path


async def send(site: Site, row: Route, body: bytes, node: str, worker: str) -> int:
    number = worker if row.path.startswith("/v1/workers") else node
    path = row.path.replace("{id}", number).replace("{name}", "there").replace("{key}", "k")
    reply = await site.client.request(row.method, path, content=body, headers={**AS_JSON, NODE_HEADER: "secret"})
    return reply.status_code
