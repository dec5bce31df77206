"""Queues are made, changed, paused and removed by those who may."""

from typing import Any

from tests.protocol.v1.harness import Site, command, story

PATH = "/v1/queues"


async def patch(site: Site, name: str, **said: Any) -> Any:
    reply = await site.ask("PATCH", f"{PATH}/{name}", said)
    assert reply.status_code == 200, reply.text
    return reply.json()


@story
async def test_a_queue_is_made_with_what_holds_for_it(site: Site) -> None:
    body = {"name": "letters", "max_active": 3, "retries": 2, "sort": "lifo", "pin": ["a", "b"]}
    reply = await site.ask("POST", PATH, body)
    assert reply.status_code == 201
    told = reply.json()
    assert (told["max_active"], told["sort"], told["pin"], told["total"]) == (3, "lifo", ["a", "b"], 0)
    assert told["retry"]["max_attempts"] == 3
    assert told["retry"]["backoff"]["kind"] == "exponential"
    (node,) = await site.add(command(queue="letters"))
    assert (await site.get(f"{PATH}/letters"))["states"] == {"incipient": 1}
    assert (await site.get(f"/v1/nodes/{node}"))["metadata"]["queue"] == "letters"
    assert [queue["name"] for queue in await site.get(PATH)] == ["letters"]


@story
async def test_a_change_leaves_what_it_does_not_name(site: Site) -> None:
    await site.ask("POST", PATH, {"name": "letters", "max_active": 3, "max_per_key": 1, "retries": 2})
    await site.ask("POST", PATH, {"name": "sent"})
    told = await patch(site, "letters", max_active=None, becomes="sent")
    assert (told["max_active"], told["max_per_key"], told["becomes"]) == (None, 1, "sent")
    assert told["retry"]["max_attempts"] == 3
    assert (await patch(site, "letters", becomes=None, max_crashes=5))["retry"]["max_crashes"] == 5


@story
async def test_a_queue_is_paused_for_a_while_or_until_it_is_resumed(site: Site) -> None:
    await site.ask("POST", PATH, {"name": "letters", "pause": 600_000})
    assert (await site.get(f"{PATH}/letters"))["paused_until"] > 0
    assert (await patch(site, "letters", paused=False))["paused_until"] == 0
    assert (await patch(site, "letters", paused=True))["paused_until"] > 1 << 50


@story
async def test_a_queue_with_nodes_is_removed_only_with_them(site: Site) -> None:
    await site.ask("POST", PATH, {"name": "letters"})
    await site.add(command(queue="letters"))
    await site.refuse(409, "DELETE", f"{PATH}/letters")
    await site.ask("DELETE", f"{PATH}/letters?drop=true")
    await site.refuse(404, "GET", f"{PATH}/letters")


@story
async def test_what_makes_no_queue_is_refused_with_a_sentence(site: Site) -> None:
    await site.ask("POST", PATH, {"name": "letters"})
    await site.refuse(409, "POST", PATH, {"name": "letters"})
    await site.refuse(404, "PATCH", f"{PATH}/none", {"paused": True})
    for body in ({}, {"name": ""}, {"name": "a\nb"}, {"name": "x", "max_active": -1}, {"name": "x", "sort": "random"}):
        await site.refuse(400, "POST", PATH, body)
    await site.refuse(404, "POST", PATH, {"name": "x", "becomes": "none"})
    await site.refuse(400, "PATCH", f"{PATH}/letters", {})
    await site.refuse(400, "PATCH", f"{PATH}/letters", {"paused": False, "pause": 1_000})


@story
async def test_only_an_administrator_changes_queues(site: Site) -> None:
    for header in (site.token("submit", "cancel", "read"), site.token("submit:letters", name="another")):
        await site.refuse(403, "POST", PATH, {"name": "letters"}, headers=header)


@story
async def test_workers_tell_how_they_are(site: Site) -> None:
    (node,) = await site.add(command())
    await site.take(node)
    (worker,) = await site.get("/v1/workers")
    assert (worker["name"], worker["state"], worker["vitals"]) == ("by-hand", "active", None)


@story
async def test_of_running_nodes_only_the_metadata_that_is_asked_for_is_told(site: Site) -> None:
    (node,) = await site.add(command())
    await site.take(node)
    assert await site.get("/v1/scheduler/running?metadata=type") == [{"id": node, "type": "command"}]
