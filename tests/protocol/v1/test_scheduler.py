"""`/scheduler`: kill and wait."""

import asyncio

from ganger.core.outcome import Killed
from tests.protocol.v1.harness import Site, command, run_story, soon, story


@story
async def test_kill_starts_the_kill_process_for_the_given_processes(site: Site) -> None:
    one, two = await site.add(command(), command())
    held = [await site.take(node) for node in (one, two)]

    reply = await site.ask("PUT", f"/v1/scheduler/kill?id={one},{two}")

    assert reply.status_code == 202
    assert reply.json() == {"killing": [one, two], "ended": []}
    tasks = await site.engine.tasks([each.id for each in held])
    assert all(task is not None and task.kill for task in tasks)
    await site.engine.settle([(each, Killed()) for each in held])
    assert {node["state"] for node in await site.get("/v1/nodes")} == {"killed"}


@run_story
async def test_a_running_process_is_killed(site: Site) -> None:
    (one,) = await site.add(command("sleep", "60"))
    await soon(lambda: _is_running(site, one))

    await site.put(f"/v1/scheduler/kill?id={one}")

    assert [node["state"] for node in await site.get(f"/v1/scheduler/wait?id={one}")] == ["killed"]


async def _is_running(site: Site, node: str) -> bool:
    return bool((await site.get(f"/v1/nodes/{node}"))["metadata"]["phase"] == "running")


@story
async def test_a_node_that_has_not_started_is_cancelled(site: Site) -> None:
    (one,) = await site.add(command())

    await site.put(f"/v1/scheduler/kill?id={one}")

    assert (await site.get(f"/v1/nodes/{one}"))["metadata"]["state"] == "cancelled"


@story
async def test_what_has_ended_cannot_be_killed_and_is_told(site: Site) -> None:
    one, two = await site.add(command(), command())
    await site.finish(one)

    assert await site.put(f"/v1/scheduler/kill?id={one},{two}") == {"killing": [two], "ended": [one]}


@story
async def test_kill_needs_ids_that_are_there(site: Site) -> None:
    (one,) = await site.add(command())

    for path in ("/v1/scheduler/kill", "/v1/scheduler/kill?id=", "/v1/scheduler/kill?id=odd"):
        await site.refuse(400, "PUT", path)
    assert (await site.refuse(404, "PUT", f"/v1/scheduler/kill?id={one},999"))["fields"]["tasks"] == [999]
    assert (await site.get(f"/v1/nodes/{one}"))["metadata"]["state"] == "incipient"


@story
async def test_wait_returns_the_nodes_state_on_completion(site: Site) -> None:
    (one,) = await site.add(command())
    waiting = asyncio.ensure_future(site.get(f"/v1/scheduler/wait?id={one}"))
    await soon(lambda: _somebody_waits(site))
    assert not waiting.done()

    await site.finish(one)

    assert await waiting == [{"id": one, "state": "finished", "phase": "succeeded", "code": 1}]


async def _somebody_waits(site: Site) -> bool:
    return len(site.server.service.door.visits) > 0


@story
async def test_the_response_is_received_when_all_tasks_are_in_a_terminal_state(site: Site) -> None:
    one, two, three = await site.add(command(), command(), command())
    await site.finish(one)
    waiting = asyncio.ensure_future(site.get(f"/v1/scheduler/wait?id={three},{two},{one}"))
    await soon(lambda: _somebody_waits(site))
    await site.fail(two, 9)
    assert not waiting.done()

    await site.put(f"/v1/scheduler/kill?id={three}")

    told = [(node["id"], node["state"], node["code"]) for node in await waiting]
    assert told == [(three, "cancelled", -5), (two, "failed", 9), (one, "finished", 1)]


@story
async def test_a_wait_can_be_asked_again(site: Site) -> None:
    (one,) = await site.add(command())
    await site.finish(one)

    for _ in range(2):
        assert (await site.get(f"/v1/scheduler/wait?id={one}"))[0]["state"] == "finished"


@story
async def test_a_node_that_is_removed_ends_the_wait(site: Site) -> None:
    (one,) = await site.add(command())
    waiting = asyncio.ensure_future(site.get(f"/v1/scheduler/wait?id={one}"))
    await soon(lambda: _somebody_waits(site))

    await site.ask("DELETE", f"/v1/nodes/{one}")

    assert await waiting == [{"id": one, "state": "removed"}]


@story
async def test_wait_needs_ids_that_are_there(site: Site) -> None:
    await site.refuse(400, "GET", "/v1/scheduler/wait")
    await site.refuse(404, "GET", "/v1/scheduler/wait?id=999")
