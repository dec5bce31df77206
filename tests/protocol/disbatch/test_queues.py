"""The routes of queues."""

import asyncio
from typing import Any

from ganger.core.queue import OnLost, Policy
from tests.protocol.disbatch.harness import DEMO, Site, everywhere, story


@everywhere
async def test_a_queue_is_made_and_listed_as_disbatch_lists_it(site: Site) -> None:
    made = await site.post("/queues", {"name": "demo", "plugin": DEMO, "threads": 4, "sort": "lifo"})

    assert made["MongoDB::InsertOneResult"]["inserted_id"] == made["id"]
    (listed,) = await site.get("/queues")
    assert listed == {
        "id": made["id"], "name": "demo", "plugin": DEMO, "constructor": DEMO, "threads": 4, "maxthreads": None,
        "sort": "lifo", "queued": 0, "running": 0, "completed": 0,
    }  # fmt: skip
    assert await site.get("/queues/demo") == await site.get(f"/queues/{made['id']}") == listed


@story
async def test_the_words_of_the_protocol_are_understood_too(site: Site) -> None:
    await site.post("/queues", {"name": "demo", "constructor": DEMO, "maxthreads": 2})

    listed = await site.get("/queues/demo")
    assert (listed["plugin"], listed["maxthreads"], listed["threads"], listed["sort"]) == (DEMO, 2, None, "default")


@story
async def test_what_a_disbatch_client_makes_is_orphaned_and_not_run_twice(site: Site) -> None:
    await site.make_queue()

    assert (await site.engine.queues.named("demo")).policy.on_lost == OnLost.ORPHAN


@everywhere
async def test_queues_count_what_waits_runs_and_is_done(site: Site) -> None:
    await site.make_queue()
    first, second, _ = await site.make_tasks({"n": 1}, {"n": 2}, {"n": 3})
    await site.finish(first)
    await site.take(second)

    listed = await site.get("/queues/demo")
    assert (listed["queued"], listed["running"], listed["completed"]) == (1, 1, 1)


@story
async def test_a_queue_needs_a_name_and_a_plugin_that_is_known(site: Site) -> None:
    body: Any
    for body in ({}, {"name": "a"}, {"plugin": DEMO}, {"name": "", "plugin": DEMO}, []):
        assert (await site.refuse("POST", "/queues", body))["error"] == "name and plugin required"
    refused = await site.refuse("POST", "/queues", {"name": "a", "plugin": "Not::Here"})
    assert (refused["error"], refused["plugin"]) == ("Unknown plugin", "Not::Here")
    refused = await site.refuse("POST", "/queues", {"name": "a", "plugin": DEMO, "colour": "red"})
    assert (refused["error"], refused["param"]) == ("Invalid param", "colour")
    assert await site.get("/queues") == []


@story
async def test_limits_and_sorts_are_checked_when_a_queue_is_made_or_changed(site: Site) -> None:
    await site.make_queue("there")
    for path, base in (("/queues", {"name": "a", "plugin": DEMO}), ("/queues/there", {})):
        for threads in (-1, "many", 1.5, True, [1], 1 << 40):
            refused = await site.refuse("POST", path, {**base, "threads": threads})
            assert refused["error"] == "threads must be a non-negative integer or null"
        refused = await site.refuse("POST", path, {**base, "maxthreads": "x"})
        assert refused["error"] == "maxthreads must be a non-negative integer or null"
        refused = await site.refuse("POST", path, {**base, "sort": "random"})
        assert refused["error"] == 'sort must be "fifo", "lifo", or "default"'


@story
async def test_a_queue_is_changed_by_any_of_its_fields(site: Site) -> None:
    face = await site.make_queue()

    told = await site.post("/queues/demo", {"threads": "7", "name": "renamed"})
    assert told["MongoDB::UpdateResult"]["modified_count"] == 1
    assert (await site.get(f"/queues/{face}"))["threads"] == 7
    await site.post("/queues/renamed", {"threads": None, "sort": "fifo"})
    assert (await site.get("/queues/renamed"))["threads"] is None
    same = await site.post("/queues/renamed", {"sort": "fifo"})
    assert (same["MongoDB::UpdateResult"]["matched_count"], same["MongoDB::UpdateResult"]["modified_count"]) == (1, 0)


@story
async def test_a_wrong_change_of_a_queue_is_told_in_the_words_of_disbatch(site: Site) -> None:
    await site.make_queue()

    assert (await site.refuse("POST", "/queues/demo", {}))["error"] == "no params"
    refused = await site.refuse("POST", "/queues/demo", {"colour": 1})
    assert (refused["error"], refused["param"]) == ("unknown param", "colour")
    assert (await site.refuse("POST", "/queues/demo", {"plugin": "No"}))["error"] == "unknown plugin"
    for name in (None, "", 5, ["a"]):
        assert (await site.refuse("POST", "/queues/demo", {"name": name}))["error"] == "name must be a string"
    assert (await site.refuse("POST", "/queues/nowhere", {"threads": 1}))["error"] == "queue not found"


@story
async def test_forms_and_addresses_say_the_same_as_json(site: Site) -> None:
    form = await site.ask("POST", "/queues", data={"name": "form", "plugin": DEMO, "threads": "3"})
    address = await site.ask("POST", "/queues", params={"name": "address", "plugin": DEMO, "threads": ""})

    assert (form.status_code, address.status_code) == (200, 200), (form.text, address.text)
    assert [queue["threads"] for queue in await site.get("/queues")] == [3, None]


@story
async def test_a_name_is_taken_once(site: Site) -> None:
    await site.make_queue("a")
    await site.make_queue("b")

    assert "already" in (await site.refuse("POST", "/queues", {"name": "a", "plugin": DEMO}))["error"]
    assert "already" in (await site.refuse("POST", "/queues/b", {"name": "a"}))["error"]


@everywhere
async def test_a_name_that_two_queues_bear_is_refused_with_both(site: Site) -> None:
    faces = [(await site.engine.queues.create("twins", by="somebody")).id for _ in range(2)]

    refused = await site.refuse("GET", "/queues/twins")
    assert refused["ids"] == faces
    assert refused["code"] == "queue_ambiguous"


@everywhere
async def test_a_queue_goes_when_its_tasks_have_ended(site: Site) -> None:
    await site.make_queue()
    (face,) = await site.make_tasks({"n": 1})

    assert "not final" in (await site.refuse("DELETE", "/queues/demo"))["error"]
    await site.finish(face)
    reply = await site.ask("DELETE", "/queues/demo")
    assert reply.json()["MongoDB::DeleteResult"]["deleted_count"] == 1
    assert (await site.refuse("DELETE", "/queues/demo"))["error"] == "queue not found"


@story
async def test_the_plugin_of_a_queue_with_waiting_tasks_stays(site: Site) -> None:
    await site.engine.queues.create("other", Policy(plugin="Another"), by="somebody")
    await site.make_queue()
    (face,) = await site.make_tasks({"n": 1})

    assert "1 tasks" in (await site.refuse("POST", "/queues/demo", {"plugin": "Another"}))["error"]
    await site.finish(face)
    await site.post("/queues/demo", {"plugin": "Another"})
    assert (await site.get("/queues/demo"))["plugin"] == "Another"


@story
async def test_plugins_are_those_that_are_set_and_those_that_queues_have(site: Site) -> None:
    assert await site.get("/plugins") == [DEMO]


@story
async def test_queues_of_gangers_own_kinds_bear_a_plugin_that_no_foreign_node_has(site: Site) -> None:
    await site.engine.queues.create("commands", by="somebody")

    assert (await site.get("/queues/commands"))["constructor"] == "Ganger"
    assert "no plugin" in (await site.refuse("POST", "/tasks/commands", [{"n": 1}]))["error"]
    await site.refuse("POST", "/queues", {"name": "mine", "plugin": "Ganger"})


@story
async def test_a_name_that_breaks_a_log_is_refused(site: Site) -> None:
    for name in ("line\nbreak", "x" * 201, " space"):
        refused = await site.refuse("POST", "/queues", {"name": name, "plugin": DEMO})
        assert refused["code"] == "bad_name"


@everywhere
async def test_a_request_that_comes_many_times_at_once_makes_one_queue(site: Site) -> None:
    body = {"name": "demo", "plugin": DEMO}
    replies = await asyncio.gather(*(site.ask("POST", "/queues", body) for _ in range(8)))

    assert {reply.status_code for reply in replies} <= {200, 400}
    (queue,) = await site.get("/queues")
    assert {reply.json()["id"] for reply in replies if reply.status_code == 200} == {queue["id"]}


@story
async def test_two_names_are_searched_one_after_the_other(site: Site) -> None:
    for name in ("one", "two"):
        await site.make_queue(name)
    first = await site.make_tasks({"n": 1}, queue="one")
    second = await site.make_tasks({"n": 2}, queue="two")
    third = await site.make_tasks({"n": 3}, queue="one")

    assert [task["_id"] for task in await site.get("/tasks", queue="two,one,two")] == [*second, *first, *third]
