"""A task has access to its parent and its subtasks with its own token."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ganger.assembly.key import open_key
from ganger.core.outcome import Fail, Succeed
from ganger.core.token import make_token
from ganger.runtime.entropy import SystemEntropy
from tests.protocol.doors import find_own
from tests.protocol.v1.harness import Site, command, run_story, story_in


def speak_for(folder: Path, claimed: Any) -> dict[str, str]:
    key = open_key(find_own(folder), SystemEntropy())
    return {"authorization": f"Bearer {make_token(key, claimed.id, claimed.fence)}"}


@story_in
async def test_a_task_reads_its_parent_itself_and_its_children(site: Site, folder: Path) -> None:
    above, one, below, stranger = await site.add(
        command(ref="a"), command(ref="b", parent="@a"), command(parent="@b"), command()
    )
    await site.finish(above)
    header = speak_for(folder, await site.take(one))

    for node in (above, one, below):
        assert (await site.ask("GET", f"/v1/nodes/{node}", headers=header)).status_code == 200
        assert (await site.ask("GET", f"/v1/nodes/{node}/data/command", headers=header)).status_code == 200
    await site.refuse(403, "GET", f"/v1/nodes/{stranger}", headers=header)
    await site.refuse(403, "GET", f"/v1/nodes/{stranger}/data/command", headers=header)
    children = await site.ask("GET", f"/v1/nodes?parent={one}", headers=header)
    assert [node["id"] for node in children.json()] == [below]
    await site.refuse(403, "GET", "/v1/nodes", headers=header)
    await site.refuse(403, "GET", f"/v1/nodes?parent={above}", headers=header)


@story_in
async def test_a_task_modifies_its_family_and_nothing_else(site: Site, folder: Path) -> None:
    one, below, stranger = await site.add(command(ref="b"), command(parent="@b"), command())
    header = speak_for(folder, await site.take(one))

    assert (await site.ask("PATCH", f"/v1/nodes/{below}", {"data": {"args": ["x"]}}, headers=header)).status_code == 200
    for node in (one, below):
        assert (await site.ask("PUT", f"/v1/nodes/{node}/data/k", {"value": 1}, headers=header)).status_code == 200
    await site.refuse(403, "PATCH", f"/v1/nodes/{stranger}", {"data": {"args": []}}, headers=header)
    await site.refuse(403, "PUT", f"/v1/nodes/{stranger}/data/k", {"value": 1}, headers=header)
    await site.refuse(403, "DELETE", f"/v1/nodes/{stranger}", headers=header)
    assert (await site.ask("DELETE", f"/v1/nodes/{below}", headers=header)).status_code == 204
    assert (await site.get(f"/v1/nodes/{one}"))["data"]["k"] == 1


@story_in
async def test_a_task_adds_children_alone(site: Site, folder: Path) -> None:
    one, stranger = await site.add(command(), command())
    header = speak_for(folder, await site.take(one))
    await site.engine.queues.create("other", by="somebody")

    below = [command(parent=one, ref="a"), command(parent="@a")]
    reply = await site.ask("POST", "/v1/nodes", below, headers=header)
    assert reply.status_code == 201
    for wrong in (command(), command(parent=stranger), command(parent=one, queue="other")):
        await site.refuse(403, "POST", "/v1/nodes", [wrong], headers=header)


@story_in
async def test_a_task_adds_below_its_own_child(site: Site, folder: Path) -> None:
    one, child, stranger = await site.add(command(ref="a"), command(parent="@a"), command())
    header = speak_for(folder, await site.take(one))

    reply = await site.ask("POST", "/v1/nodes", command(parent=child), headers=header)
    assert reply.status_code == 201
    assert (await site.get(f"/v1/nodes/{reply.json()[0]['id']}"))["metadata"]["parents"] == [child]
    await site.refuse(403, "POST", "/v1/nodes", command(parent=stranger), headers=header)


@story_in
async def test_a_task_writes_values_of_a_parent_that_has_ended_but_not_what_that_ran(site: Site, folder: Path) -> None:
    above, one = await site.add(command(ref="a"), command(parent="@a"))
    await site.finish(above)
    held = await site.take(one)
    header = speak_for(folder, held)

    put = await site.ask("PUT", f"/v1/nodes/{above}/data/note", {"value": "seen"}, headers=header)
    assert put.status_code == 200, put.text
    slot = put.json()["pagination"]
    path = f"/v1/nodes/{above}/data/note?start={slot['next']}&pid={slot['pid']}"
    assert (await site.ask("PUT", path, {"value": " twice"}, headers=header)).status_code == 200
    assert (await site.get(f"/v1/nodes/{above}/data/note"))["data"] == "seen twice"
    await site.refuse(409, "PUT", f"/v1/nodes/{above}/data/command", {"value": "evil"}, headers=header)
    assert (await site.ask("PUT", f"/v1/nodes/{above}/data/k", {"value": 1})).status_code == 409
    await site.engine.settle([(held, Succeed())])
    await site.refuse(409, "PUT", f"/v1/nodes/{above}/data/note", {"value": "late"}, headers=header)


@story_in
async def test_a_value_that_comes_slowly_is_not_kept_for_an_attempt_that_ended_meanwhile(
    site: Site, folder: Path
) -> None:
    one, below = await site.add(command(ref="a"), command(parent="@a"))
    held = await site.take(one)
    header = {**speak_for(folder, held), "content-type": "application/json"}

    async def body() -> AsyncIterator[bytes]:
        yield b'{"value":'
        await site.engine.settle([(held, Fail(2))])
        yield b'"late"}'

    reply = await site.client.put(f"/v1/nodes/{below}/data/k", content=body(), headers=header)

    assert (reply.status_code, reply.json()["code"]) == (409, "stale_lease")
    assert (await site.ask("GET", f"/v1/nodes/{below}/data/k")).status_code == 404


@story_in
async def test_the_token_of_an_attempt_ends_with_it(site: Site, folder: Path) -> None:
    (one,) = await site.add(command())
    held = await site.take(one)
    header = speak_for(folder, held)
    await site.engine.settle([(held, Succeed())])

    for problem in (
        await site.refuse(409, "GET", f"/v1/nodes/{one}", headers=header),
        await site.refuse(409, "POST", "/v1/nodes", [command(parent=one)], headers=header),
    ):
        assert problem["code"] == "stale_lease"


@story_in
async def test_no_other_route_takes_the_token_of_an_attempt(site: Site, folder: Path) -> None:
    (one,) = await site.add(command())
    header = speak_for(folder, await site.take(one))

    for path in ("/v1/events", "/v1/queues", "/v1/stats", "/metrics", "/v1/scheduler/running", f"/v1/nodes/{one}/why"):
        await site.refuse(403, "GET", path, headers=header)
    await site.refuse(403, "PUT", f"/v1/scheduler/kill?id={one}", headers=header)
    await site.refuse(401, "GET", f"/v1/nodes/{one}", headers={"authorization": "Bearer 1.1.00"})


@pytest.mark.slow
@run_story
async def test_a_command_reaches_its_own_node_with_the_token_in_its_environment(site: Site) -> None:
    ask = f'curl -s -H "Authorization: Bearer $GANGER_TOKEN" {site.server.url}/v1/nodes/$GANGER_TASK'
    (one,) = await site.add({"metadata": {"type": "shell command"}, "data": {"command": ask}})
    await site.get(f"/v1/scheduler/wait?id={one}")

    said = (await site.get(f"/v1/nodes/{one}"))["data"]["stdout"]

    assert f'"id":"{one}"' in said
    assert '"state":"running"' in said
