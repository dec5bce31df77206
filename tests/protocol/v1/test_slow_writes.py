"""Whatever comes slowly is not kept for an attempt that lost its lease meanwhile: the step that writes looks."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from ganger.core.graph import Edge
from ganger.core.ids import NodeId, TaskId
from ganger.core.node import Registration
from ganger.core.outcome import Release
from ganger.core.task import Claimed, Kind, NewTask
from ganger.engine.store import Change, Claim, Datum, Edit
from tests.protocol.v1.harness import Site, command, serve, story
from tests.protocol.v1.test_family import speak_for

_ABOVE, _ONE, _BELOW = "above", "one", "below"

WRITES: Final[list[tuple[str, str, Any]]] = [
    ("PUT", "/v1/nodes/{one}/data/k", {"value": "late"}),
    ("PUT", "/v1/nodes/{above}/data/k", {"value": "late"}),
    ("PUT", "/v1/nodes/{below}/data/k", {"value": "late"}),
    ("PUT", "/v1/nodes/{below}/data/args", {"value": ["late"]}),
    ("PUT", "/v1/nodes/{below}/data/kept?start={next}&pid={pid}", {"value": "late"}),
    ("PATCH", "/v1/nodes/{below}", {"metadata": {"description": "late"}}),
    ("POST", "/v1/nodes", "child"),
    ("POST", "/v1/engine/submit", "submission"),
    ("POST", "/v1/engine/edits", "datum"),
    ("POST", "/v1/engine/edits", "change"),
    ("POST", "/v1/engine/progress", {"percent": 50, "info": "late"}),
]


def fill(body: Any, ids: dict[str, str], queue: int) -> bytes:
    below = TaskId(int(ids[_BELOW]))
    edge = Edge(TaskId(int(ids[_ONE])), "success")
    made = {
        "child": command(parent=ids[_ONE]),
        "submission": {"tasks": [NewTask(queue, Kind.COMMAND, b'{"argv":["true"]}', parents=(edge,))]},  # type: ignore[arg-type]
        "datum": [Edit(below, datum=Datum("k", b"late", size=4))],
        "change": [Edit(below, change=Change(description="late"))],
    }
    return msgspec.json.encode(made[body] if isinstance(body, str) else body)


async def look_at(site: Site, ids: dict[str, str]) -> list[Any]:
    """All that an attempt could have written."""
    shown = [await site.get(f"/v1/nodes/{node}") for node in ids.values()]
    return [*((one["data"], one["metadata"].get("description")) for one in shown), len(await site.get("/v1/nodes"))]


async def write_slowly(site: Site, folder: Path, write: tuple[str, str, Any]) -> None:
    method, path, body = write
    above, one, below = await site.add(command(ref="a"), command(ref="b", parent="@a"), command(parent="@b"))
    ids = {_ABOVE: above, _ONE: one, _BELOW: below}
    kept = (await site.put(f"/v1/nodes/{below}/data/kept", {"value": "before"}))["pagination"]
    await site.finish(above)
    held = await site.take(one)
    content = fill(body, ids, held.queue)
    before = await look_at(site, ids)

    async def send() -> AsyncIterator[bytes]:
        yield content[:1]
        await site.engine.settle([(held, Release())])
        await site.take(one)
        yield content[1:]

    header = {**speak_for(folder, held), "content-type": "application/json"}
    where = path.format(**ids, next=kept["next"], pid=kept["pid"])
    reply = await site.client.request(method, where, content=send(), headers=header)

    assert (reply.status_code, reply.json()["code"]) == (409, "stale_lease"), reply.text
    assert await look_at(site, ids) == before
    (found,) = await site.engine.tasks([TaskId(int(one))])
    assert found is not None
    assert (found.percent, found.fence > held.fence) == (None, True)


@pytest.mark.parametrize("write", WRITES, ids=[f"{method} {path} {body}" for method, path, body in WRITES])
def test_what_an_attempt_sends_slowly_is_refused_if_another_has_its_task_by_then(
    tmp_path: Path, write: tuple[str, str, Any]
) -> None:
    async def tell() -> None:
        async with serve(tmp_path) as site:
            await write_slowly(site, tmp_path, write)

    asyncio.run(tell())


@story
async def test_every_route_by_which_an_attempt_writes_is_among_them(site: Site) -> None:
    tried = {(method, path.partition("?")[0]) for method, path, _ in WRITES}
    for name in (_ABOVE, _ONE, _BELOW):
        tried = {(method, path.replace(f"{{{name}}}", "{id}")) for method, path in tried}
    tried = {(method, "/v1/nodes/{id}/data/{key}" if "/data/" in path else path) for method, path in tried}

    rows = site.server.service.door.table.rows
    open_to_attempts = {(row.method, row.path) for row in rows if row.family and row.body is not None}

    assert open_to_attempts == tried


async def hand_over(site: Site, held: Claimed, node: NodeId) -> None:
    await site.engine.settle([(held, Release())])
    await site.engine.claim(Claim(node, ids=(held.id,), start=True))


@story
async def test_a_large_value_that_a_far_node_sends_slowly_is_refused_likewise(site: Site) -> None:
    queue = await site.engine.queues.ensure("mine", by="somebody")
    (task,) = (await site.engine.submit([NewTask(queue.id, Kind.PAYLOAD, b"x")])).ids
    far = await site.engine.nodes.register(Registration("far", "the secret"))
    other = await site.engine.nodes.register(Registration("other", "another"))
    (held,) = await site.engine.claim(Claim(far.id, ids=(task,), start=True))

    async def send() -> AsyncIterator[bytes]:
        yield b"la"
        await hand_over(site, held, other.id)
        yield b"te"

    path = f"/v1/workers/{far.id}/data?task={task}&fence={held.fence}&name=k"
    reply = await site.client.put(path, content=send(), headers={"ganger-node": "the secret"})

    assert (reply.status_code, reply.json()["code"]) == (409, "stale_lease"), reply.text
    assert (await site.engine.read_data(task, "k")).size == 0
