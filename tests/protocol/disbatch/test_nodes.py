"""The routes of nodes, and what else a command node tells."""

import asyncio
from collections.abc import Sequence

from ganger.core.node import Registration
from ganger.core.queue import Policy
from ganger.core.task import Claimed
from ganger.engine.store import Claim
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


@everywhere
async def test_a_limit_of_a_node_is_kept_and_obeyed(site: Site) -> None:
    await site.make_queue()
    tasks = await site.make_tasks(*({"n": n} for n in range(4)))
    await site.take(tasks[0])

    assert await limit(site, 1) == 1
    assert (await site.get("/nodes/by-hand"))["maxthreads"] == 1
    assert (await site.get("/nodes"))[0]["maxthreads"] == 1
    assert await claim_all(site) == []
    assert (await limit(site, 1), await limit(site, None)) == (0, 1)
    assert (await site.get("/nodes/by-hand"))["maxthreads"] == 5
    assert len(await claim_all(site)) == 3


async def limit(site: Site, most: int | None) -> int:
    """How many nodes were changed by it."""
    told = (await site.ask("POST", "/nodes/by-hand", {"maxthreads": most})).json()
    changed: int = told["MongoDB::UpdateResult"]["modified_count"]
    return changed


async def claim_all(site: Site) -> Sequence[Claimed]:
    """What the node that is played by hand gets when it asks for all."""
    (node,) = await site.engine.nodes.all()
    (queue,) = await site.engine.queues.all()
    return await site.engine.claim(Claim(node.id, (queue.id,), 10))


@story
async def test_a_node_that_waits_gets_its_tasks_when_its_limit_is_raised(site: Site) -> None:
    await site.make_queue()
    node = await site.engine.nodes.register(Registration("here", "secret", slots=2))
    await site.ask("POST", "/nodes/here", {"maxthreads": 0})
    await site.make_tasks({"n": 1})
    (queue,) = await site.engine.queues.all()
    waiting = asyncio.create_task(site.engine.wait_claim(Claim(node.id, (queue.id,), 1), 40.0))
    assert (await asyncio.wait([waiting], timeout=0.2))[0] == set()
    await site.ask("POST", "/nodes/here", {"maxthreads": 1})
    async with asyncio.timeout(10):
        assert len(await waiting) == 1


@story
async def test_a_node_that_is_not_here_is_not_limited(site: Site) -> None:
    node = await site.engine.nodes.register(Registration("here", "secret"))
    await site.engine.nodes.leave(node.id, "secret")
    assert "no node called" in (await site.refuse("POST", "/nodes/here", {"maxthreads": 1}))["error"]


@story
async def test_who_wants_a_queue_balance_is_told_what_to_do_instead(site: Site) -> None:
    for method in ("GET", "POST"):
        assert "set threads with POST /queues/:queue" in (await site.refuse(method, "/balance"))["error"]


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
