"""The routes of nodes, and what else a command node tells."""

import asyncio

from ganger.core.node import Registration
from ganger.core.queue import Policy
from tests.protocol.disbatch.harness import DEMO, Site, everywhere, serve, story


@everywhere
async def test_a_node_is_shown_with_its_queues(site: Site) -> None:
    queue = await site.make_queue(maxthreads=3)
    done, running, _ = await site.make_tasks({"n": 1}, {"n": 2}, {"n": 3})
    await site.finish(done)
    await site.take(running)

    (node,) = await site.get("/nodes")
    assert (node["node"], node["maxthreads"], node["live"], node["id"]) == ("by-hand", 5, True, node["_id"])
    assert node["timestamp"] > 1_600_000_000_000
    assert node["queues"] == [
        {
            "name": "demo", "id": queue, "constructor": DEMO, "maxthreads": 3, "tasks_todo": 1, "tasks_doing": 1,
            "tasks_done": 1, "preemptive": 1, "tasks_backfill": 0,
        }
    ]  # fmt: skip
    assert await site.get("/nodes/by-hand") == await site.get(f"/nodes/{node['id']}") == node


@story
async def test_a_node_has_the_queues_that_it_takes(site: Site) -> None:
    await site.engine.queues.create("pinned", Policy(pin=("other",)), by="somebody")
    await site.engine.queues.create("open", by="somebody")
    await site.engine.nodes.register(Registration("here", "secret"))

    node = await site.get("/nodes/here")
    assert [queue["name"] for queue in node["queues"]] == ["open"]


@everywhere
async def test_a_node_keeps_its_id_when_it_comes_back(site: Site) -> None:
    first = await site.engine.nodes.register(Registration("here", "secret"))
    before = await site.get("/nodes/here")
    await site.engine.nodes.leave(first.id, "secret")
    assert (await site.get("/nodes/here"))["live"] is False
    await site.engine.nodes.register(Registration("here", "other"))

    (after,) = await site.get("/nodes")
    assert (after["id"], after["live"]) == (before["id"], True)


@story
async def test_a_node_that_is_not_there_is_told(site: Site) -> None:
    for name in ("nobody", "571f8951b75bf335634ec271"):
        assert (await site.refuse("GET", f"/nodes/{name}"))["error"].startswith(f"Could not get node {name}")


@story
async def test_a_wrong_limit_of_a_node_is_told_in_the_words_of_disbatch(site: Site) -> None:
    await site.engine.nodes.register(Registration("here", "secret", slots=2))

    assert (await site.refuse("POST", "/nodes/here", {}))["error"] == "No params"
    refused = await site.refuse("POST", "/nodes/here", {"colour": 1})
    assert (refused["error"], refused["param"]) == ("Invalid param", "colour")
    refused = await site.refuse("POST", "/nodes/here", {"maxthreads": -1})
    assert refused["error"] == "maxthreads must be a non-negative integer or null"


@story
async def test_monitoring_says_whether_anybody_is_there(site: Site) -> None:
    balance = {"status": "OK", "message": "queuebalance disabled"}
    told = await site.get("/monitoring")
    assert told == {"disbatch": {"status": "WARNING", "message": "No Disbatch nodes found"}, "queuebalance": balance}
    node = await site.engine.nodes.register(Registration("here", "secret"))
    told = (await site.get("/monitoring"))["disbatch"]
    assert (told["status"], list(told["nodes"]["fresh"])) == ("OK", ["here"])
    await site.engine.nodes.leave(node.id, "secret")
    told = (await site.get("/monitoring"))["disbatch"]
    assert (told["status"], list(told["nodes"]["stale"])) == ("CRITICAL", ["here"])


@story
async def test_info_lists_the_routes_and_gives_no_secret_away(site: Site) -> None:
    told = await site.get("/info")

    assert told["routes"]["DELETE"] == ["/queues/{queue}"]
    assert set(told["routes"]) == {"GET", "POST", "DELETE"}
    assert "/" not in told["database"]
    assert "@" not in told["database"]


@story
async def test_who_may_submit_to_one_queue_makes_tasks_there_alone(site: Site) -> None:
    await site.make_queue("mine")
    await site.make_queue("theirs")
    header = site.token("submit:mine")

    assert (await site.ask("POST", "/tasks/mine", [{"n": 1}], headers=header)).status_code == 200
    await site.refuse("POST", "/tasks/theirs", [{"n": 1}], status=403, headers=header)
    assert (await site.ask("GET", "/queues", headers=header)).status_code == 403
    assert (await site.ask("POST", "/queues", {}, headers=site.token("read", "submit"))).status_code == 403


def test_the_door_may_stand_at_the_root_or_be_off() -> None:
    async def look(path: str, **said: str) -> int:
        async with serve("memory:", **said) as site:
            return (await site.client.get(path)).status_code

    assert asyncio.run(look("/queues", disbatch="/")) == 200
    assert asyncio.run(look("/v1/nodes", disbatch="/")) == 200
    assert asyncio.run(look("/disbatch/queues", disbatch="off")) == 404
    assert asyncio.run(look("/batch/4/queues", disbatch="/batch/4")) == 200


def test_plugins_that_are_set_may_be_named_by_queues() -> None:
    async def tell() -> None:
        async with serve("memory:", plugins="My::Plugin=package.module:Class, /opt/other") as site:
            assert await site.get("/plugins") == ["/opt/other", DEMO, "My::Plugin"]
            await site.post("/queues", {"name": "mine", "plugin": "My::Plugin"})

    asyncio.run(tell())
