"""What a frontend is going to want: modify existing tasks, add and remove nodes and chains."""

from typing import Any

from ganger.core.task import NewTask
from tests.protocol.v1.harness import Site, command, run_story, soon, story


async def parents(site: Site, node: str) -> list[str]:
    found: list[str] = (await site.get(f"/v1/nodes/{node}"))["metadata"]["parents"]
    return found


@story
async def test_existing_tasks_are_modified_by_changing_command_args(site: Site) -> None:
    (one,) = await site.add(command("echo", "old"))

    reply = await site.ask("PATCH", f"/v1/nodes/{one}", {"data": {"args": ["new"]}, "metadata": {"priority": 3}})

    assert reply.status_code == 200
    assert reply.json()["data"] == {"command": "echo", "args": ["new"]}
    assert reply.json()["metadata"]["priority"] == 3
    await site.put(f"/v1/nodes/{one}/data/args", {"value": ["newer"]})
    await site.put(f"/v1/nodes/{one}/data/command", {"value": "printf"})
    assert (await site.get(f"/v1/nodes/{one}"))["data"] == {"command": "printf", "args": ["newer"]}
    assert (await site.take(one)).spec == b'{"argv":["printf","newer"]}'


@story
async def test_what_has_started_is_not_modified(site: Site) -> None:
    (one,) = await site.add(command("echo"))
    await site.take(one)

    for problem in (
        await site.refuse(409, "PATCH", f"/v1/nodes/{one}", {"data": {"args": []}}),
        await site.refuse(409, "PUT", f"/v1/nodes/{one}/data/args", {"value": []}),
    ):
        assert problem["code"] == "wrong_status"


@story
async def test_a_description_follows_what_is_run_unless_it_is_somebodys_own(site: Site) -> None:
    plain, named = await site.add(command("echo", "old"), command("echo", description="mine"))

    for node in (plain, named):
        await site.ask("PATCH", f"/v1/nodes/{node}", {"data": {"args": ["new"]}})
    assert [(await site.get(f"/v1/nodes/{node}"))["metadata"]["description"] for node in (plain, named)] == [
        "echo new",
        "mine",
    ]
    for node in (plain, named):
        await site.put(f"/v1/nodes/{node}/data/command", {"value": "printf"})
    assert [(await site.get(f"/v1/nodes/{node}"))["metadata"]["description"] for node in (plain, named)] == [
        "printf new",
        "mine",
    ]


@story
async def test_a_description_is_never_null(site: Site) -> None:
    given: list[tuple[str, dict[str, Any], str]] = [
        ("command", {"command": "echo", "args": ["a b", "c"]}, "echo a b c"),
        ("shell command", {"command": "cd /tmp\n\tls\n"}, "cd /tmp ls"),
        ("function", {"path": "etl:load"}, "etl:load"),
        ("condition", {"probe": {"if": "file", "path": "/data/ready"}}, "if=file path=/data/ready"),
        ("payload", {"payload": "x"}, "payload"),
        ("plugin:tidy", {"params": {}}, "plugin:tidy"),
        ("group", {}, "group"),
    ]
    await site.add(*({"metadata": {"type": kind}, "data": data} for kind, data, _ in given))
    await site.engine.submit([NewTask((await site.engine.queues.named("default")).id, "function")])

    told = [node["description"] for node in await site.get("/v1/nodes?metadata=description")]

    assert told == [*(text for _, _, text in given), "function"]


@story
async def test_parent_takes_a_list(site: Site) -> None:
    one, two = await site.add(command(), command())

    both, mixed = await site.add(command(parent=[one, two]), command(parent=[one, {"id": two, "on": "finished"}]))

    assert await parents(site, both) == [one, two]
    assert (await site.get(f"/v1/nodes/{mixed}"))["metadata"]["edges"][1] == {"id": two, "on": "finished"}
    await site.ask("PATCH", f"/v1/nodes/{both}", {"metadata": {"parent": [two]}})
    assert await parents(site, both) == [two]
    await site.ask("PATCH", f"/v1/nodes/{both}", {"metadata": {"parent": "root"}})
    assert await parents(site, both) == []


@story
async def test_a_change_that_makes_no_sense_is_refused(site: Site) -> None:
    (one,) = await site.add(command("echo"))

    wrong: list[Any] = [{}, {"data": {"odd": 1}}, {"data": {"args": 1}}, {"metadata": {"priority": -1}}, []]
    for body in wrong:
        await site.refuse(400, "PATCH", f"/v1/nodes/{one}", body)
    assert (await site.get(f"/v1/nodes/{one}"))["data"] == {"command": "echo", "args": []}


@story
async def test_what_a_node_waits_for_is_changed(site: Site) -> None:
    one, two, below = await site.add(command(ref="a"), command(), command(parent="@a"))

    await site.ask("PATCH", f"/v1/nodes/{below}", {"metadata": {"parents": [two]}})
    assert await parents(site, below) == [two]
    assert (await site.refuse(400, "PATCH", f"/v1/nodes/{two}", {"metadata": {"parents": [below]}}))["code"] == (
        "cycle_found"
    )
    await site.ask("PATCH", f"/v1/nodes/{below}", {"metadata": {"parents": ["root"]}})
    assert await parents(site, below) == []
    await site.refuse(400, "PATCH", f"/v1/nodes/{below}", {"metadata": {"parents": [one, "999"]}})
    assert await parents(site, below) == []


@story
async def test_a_removed_middle_node_gives_its_children_its_parents(site: Site) -> None:
    above, middle, below = await site.add(command(ref="a"), command(ref="b", parent="@a"), command(parent="@b"))

    reply = await site.ask("DELETE", f"/v1/nodes/{middle}")

    assert (reply.status_code, reply.content) == (204, b"")
    assert await parents(site, below) == [above]
    await site.refuse(404, "GET", f"/v1/nodes/{middle}")
    await site.refuse(404, "DELETE", f"/v1/nodes/{middle}")


@story
async def test_a_chain_is_removed_with_its_descendants(site: Site) -> None:
    above, middle, _ = await site.add(command(ref="a"), command(ref="b", parent="@a"), command(parent="@b"))

    await site.ask("DELETE", f"/v1/nodes/{middle}?descendants=true")

    assert [node["id"] for node in await site.get("/v1/nodes")] == [above]
    await site.refuse(400, "DELETE", f"/v1/nodes/{above}?descendants=perhaps")


@story
async def test_a_running_node_is_not_removed(site: Site) -> None:
    (one,) = await site.add(command())
    await site.take(one)

    assert (await site.refuse(409, "DELETE", f"/v1/nodes/{one}"))["code"] == "wrong_status"


@story
async def test_a_chain_that_has_ended_is_removed_whole(site: Site) -> None:
    ids = await site.add(command(ref="a"), command(parent="@a", ref="b"), command(parent="@b"))
    for node in ids:
        await site.finish(node)

    assert (await site.ask("DELETE", f"/v1/nodes/{ids[0]}?descendants=true")).status_code == 204

    assert await site.get("/v1/nodes") == []


@story
async def test_what_runs_below_is_named_by_the_refusal(site: Site) -> None:
    top, child = await site.add(command(ref="a"), command(parent="@a"))
    await site.finish(top)
    await site.take(child)

    problem = await site.refuse(409, "DELETE", f"/v1/nodes/{top}?descendants=true")

    assert (problem["code"], problem["fields"]["tasks"]) == ("wrong_status", [int(child)])
    assert f"task {child} is running" in problem["detail"]
    assert len(await site.get("/v1/nodes")) == 2


@run_story
async def test_what_runs_below_is_ended_first_if_that_is_said(site: Site) -> None:
    top, child, below = await site.add(
        command(ref="a"),
        command("sleep", "3600", parent="@a", ref="b"),
        command(parents=[{"id": "@b", "on": "finished"}]),
    )

    async def is_running() -> bool:
        return [node["id"] for node in await site.get("/v1/scheduler/running")] == [child]

    await soon(is_running)

    assert (await site.ask("DELETE", f"/v1/nodes/{top}?descendants=true&kill=true")).status_code == 204

    assert await site.get("/v1/nodes") == []
    await site.refuse(404, "GET", f"/v1/nodes/{below}")


@story
async def test_why_a_node_waits_is_told(site: Site) -> None:
    above, below = await site.add(command(ref="a"), command(parent="@a"))

    told = await site.get(f"/v1/nodes/{below}/why")

    assert (told["id"], told["phase"]) == (below, "blocked")
    assert [reason["code"] for reason in told["reasons"]] == ["parents_open"]
    assert above in told["reasons"][0]["sentence"]
    await site.refuse(404, "GET", "/v1/nodes/999/why")


@story
async def test_queues_workers_and_counts_are_told(site: Site) -> None:
    done, _ = await site.add(command(), command())
    await site.finish(done)

    (queue,) = await site.get("/v1/queues")
    assert (queue["name"], queue["total"], queue["states"]) == ("default", 2, {"finished": 1, "incipient": 1})
    assert [worker["name"] for worker in await site.get("/v1/workers")] == ["by-hand"]
    stats = await site.get("/v1/stats")
    assert stats["queues"][0]["facts"]["submitted"] == 2
    figures = (await site.ask("GET", "/metrics")).text
    assert 'ganger_tasks{queue="default",status="succeeded"} 1' in figures
    assert 'ganger_facts_total{queue="default",fact="submitted"} 2' in figures
    assert (await site.get("/health/live"), await site.get("/health/ready")) == ({"live": True}, {"ready": True})
