"""`/nodes` GET: high level information about many nodes at once."""

import asyncio
from typing import Any

import httpx2

from tests.protocol.v1.harness import Site, command, soon, story


def ids_of(nodes: Any) -> list[str]:
    return [node["id"] for node in nodes]


def script(text: str = "true", parent: str = "root") -> dict[str, Any]:
    return {"metadata": {"type": "shell command", "parent": parent}, "data": {"command": text}}


@story
async def test_all_endpoints_begin_with_v1(site: Site) -> None:
    await site.refuse(404, "GET", "/nodes")


@story
async def test_type_chooses_the_nodes_to_return(site: Site) -> None:
    one, two = await site.add(command(), script())

    assert ids_of(await site.get("/v1/nodes?type=command")) == [one]
    assert ids_of(await site.get("/v1/nodes", params={"type": "shell command"})) == [two]


@story
async def test_state_chooses_the_nodes_to_return(site: Site) -> None:
    done, failed, ran, waits, dropped, held = await site.add(*(command(str(n)) for n in range(6)))
    await site.finish(done)
    await site.fail(failed, 7)
    await site.take(ran)
    await site.put(f"/v1/scheduler/kill?id={dropped}")
    await site.engine.hold([int(held)], by="somebody")  # type: ignore[list-item]

    expected = {"finished": done, "failed": failed, "running": ran, "incipient": waits, "cancelled": dropped}
    for state, node in (expected | {"held": held}).items():
        assert ids_of(await site.get(f"/v1/nodes?state={state}")) == [node], state
    assert ids_of(await site.get("/v1/nodes?state=finished,running")) == [done, ran]


@story
async def test_without_a_state_nodes_of_all_states_are_returned(site: Site) -> None:
    done, waits = await site.add(command(), command())
    await site.finish(done)

    assert {node["state"] for node in await site.get("/v1/nodes")} == {"finished", "incipient"}
    assert ids_of(await site.get("/v1/nodes")) == [done, waits]


@story
async def test_metadata_is_a_comma_list_of_what_to_provide_in_addition_to_the_id(site: Site) -> None:
    (above,) = await site.add(command())
    (below,) = await site.add(command(parent=above))

    assert await site.get("/v1/nodes?metadata=type,parent") == [
        {"id": above, "type": "command", "parent": "root"},
        {"id": below, "type": "command", "parent": above},
    ]
    assert await site.get("/v1/nodes?metadata=id") == [{"id": above}, {"id": below}]


@story
async def test_without_metadata_all_of_it_is_returned(site: Site) -> None:
    await site.add(command(description="say nothing", priority=7))

    (node,) = await site.get("/v1/nodes")

    assert node["description"] == "say nothing"
    assert node["priority"] == 7
    assert {"type", "parent", "parents", "state", "status", "phase", "queue", "created"} <= set(node)
    assert node["state"] == node["status"] == "incipient"
    assert node["phase"] == "queued"


@story
async def test_new_returns_only_nodes_newer_than_the_given_id(site: Site) -> None:
    one, two, three = await site.add(command(), command(), command())

    assert ids_of(await site.get(f"/v1/nodes?new={one}")) == [two, three]
    assert ids_of(await site.get("/v1/nodes?new=0")) == [one, two, three]


@story
async def test_if_none_are_newer_the_request_waits_until_one_or_more_nodes_are_added(site: Site) -> None:
    (one,) = await site.add(command())
    waiting = asyncio.ensure_future(site.get(f"/v1/nodes?new={one}"))
    await soon(lambda: _is_waiting(site))
    assert not waiting.done()

    added = await site.add(command(), command())

    assert ids_of(await waiting) == added


async def _is_waiting(site: Site) -> bool:
    return len(site.server.service.door.visits) == 1


@story
async def test_a_wait_for_new_nodes_heeds_the_filters(site: Site) -> None:
    (one,) = await site.add(command())
    waiting = asyncio.ensure_future(site.get(f"/v1/nodes?new={one}&state=finished"))
    await soon(lambda: _is_waiting(site))
    (two,) = await site.add(command())
    assert not waiting.done()

    await site.finish(two)

    assert ids_of(await waiting) == [two]


@story
async def test_the_request_waits_until_the_client_times_out(site: Site) -> None:
    (one,) = await site.add(command())
    try:
        await site.client.get(f"/v1/nodes?new={one}", timeout=0.2)
    except httpx2.ReadTimeout:
        await soon(lambda: _nobody_waits(site))
    else:
        raise AssertionError("it answered")


async def _nobody_waits(site: Site) -> bool:
    return not len(site.server.service.door.visits)


@story
async def test_a_long_poll_is_told_to_come_back_when_the_server_stops(site: Site) -> None:
    (one,) = await site.add(command())
    waiting = asyncio.ensure_future(site.ask("GET", f"/v1/nodes?new={one}"))
    await soon(lambda: _is_waiting(site))

    await site.server.service.stop()

    reply = await waiting
    assert reply.status_code == 503
    assert reply.headers["retry-after"] == "1"


@story
async def test_parent_and_queue_and_key_choose_nodes_too(site: Site) -> None:
    (above,) = await site.add(command(key="k"))
    (below,) = await site.add(command(parent=above))

    assert ids_of(await site.get(f"/v1/nodes?parent={above}")) == [below]
    assert ids_of(await site.get("/v1/nodes?key=k")) == [above]
    assert ids_of(await site.get("/v1/nodes?queue=default")) == [above, below]
    await site.refuse(404, "GET", "/v1/nodes?queue=nowhere")


@story
async def test_currently_running_tasks_can_be_got(site: Site) -> None:
    ran, _ = await site.add(command(), command())
    await site.take(ran)

    assert ids_of(await site.get("/v1/scheduler/running")) == [ran]
    assert ids_of(await site.get("/v1/nodes?state=running")) == [ran]


@story
async def test_what_is_not_understood_is_refused_with_what_is_known(site: Site) -> None:
    assert "incipient" in (await site.refuse(400, "GET", "/v1/nodes?state=odd"))["detail"]
    assert "parent" in (await site.refuse(400, "GET", "/v1/nodes?metadata=odd"))["detail"]
    assert "metadata" in (await site.refuse(400, "GET", "/v1/nodes?metadat=type"))["detail"]
    await site.refuse(400, "GET", "/v1/nodes?new=odd")
    for limit in ("0", "1001", "-1", "many"):
        for path in ("/v1/nodes", "/v1/graph"):
            await site.refuse(400, "GET", f"{path}?limit={limit}")
    await site.refuse(400, "GET", "/v1/nodes?type=a&type=b")
