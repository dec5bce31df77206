"""`/nodes` POST: add new nodes with given metadata and data."""

from typing import Any

from tests.protocol.v1.harness import Site, command, story


@story
async def test_a_new_node_is_added_with_given_metadata_and_data(site: Site) -> None:
    (node,) = await site.add(
        {
            "metadata": {"type": "command", "parent": "root", "description": "greet"},
            "data": {"command": "echo", "args": ["hello", "world"], "note": {"a": [1, None]}},
        }
    )

    shown = await site.get(f"/v1/nodes/{node}")

    assert shown["metadata"]["description"] == "greet"
    assert shown["data"] == {"command": "echo", "args": ["hello", "world"], "note": {"a": [1, None]}}


@story
async def test_multiple_can_be_submitted_at_the_same_time(site: Site) -> None:
    ids = await site.add(*(command(str(n)) for n in range(100)))

    assert ids == sorted(set(ids), key=int)
    told = await site.get("/v1/nodes?metadata=description")
    assert [node["description"] for node in told] == [str(n) for n in range(100)]


@story
async def test_one_alone_needs_no_list(site: Site) -> None:
    reply = await site.ask("POST", "/v1/nodes", command())

    assert reply.status_code == 201
    assert reply.json() == [{"id": reply.json()[0]["id"], "state": "incipient"}]


@story
async def test_parent_is_root_or_an_existing_node_id(site: Site) -> None:
    (above,) = await site.add(command(parent="root"))
    (below,) = await site.add(command(parent=above))

    told = {node["id"]: node["parent"] for node in await site.get("/v1/nodes")}

    assert told == {above: "root", below: above}
    assert (await site.refuse(400, "POST", "/v1/nodes", [command(parent="999")]))["code"] == "unknown_parent"
    await site.refuse(400, "POST", "/v1/nodes", [command(parent="odd")])


@story
async def test_an_id_is_generated_by_the_server(site: Site) -> None:
    (one,), (two,) = await site.add(command()), await site.add(command())

    assert int(one) < int(two)
    given: dict[str, Any] = command()
    given["metadata"]["id"] = "123"
    await site.refuse(400, "POST", "/v1/nodes", [given])


@story
async def test_the_task_is_placed_in_the_incipient_state(site: Site) -> None:
    above, below = await site.add(command(ref="a"), command(parent="@a"))

    for node in (above, below):
        assert (await site.get(f"/v1/nodes/{node}"))["metadata"]["state"] == "incipient"


@story
async def test_several_parents_are_waited_for(site: Site) -> None:
    one, two = await site.add(command(), command())
    (join,) = await site.add({"metadata": {"type": "command", "parents": [one, two]}, "data": {"command": "true"}})

    told = (await site.get(f"/v1/nodes/{join}"))["metadata"]
    assert (told["parent"], told["parents"], told["phase"]) == (one, [one, two], "blocked")
    await site.finish(one)
    assert (await site.get(f"/v1/nodes/{join}"))["metadata"]["phase"] == "blocked"
    await site.finish(two)
    assert (await site.get(f"/v1/nodes/{join}"))["metadata"]["phase"] == "queued"


@story
async def test_a_parent_may_be_asked_for_another_end(site: Site) -> None:
    (one,) = await site.add(command())
    parents = [{"id": one, "on": "failed"}]
    (rescue,) = await site.add({"metadata": {"type": "command", "parents": parents}, "data": {"command": "true"}})

    await site.fail(one)

    told = (await site.get(f"/v1/nodes/{rescue}"))["metadata"]
    assert (told["phase"], told["edges"]) == ("queued", [{"id": one, "on": "failed"}])


@story
async def test_nodes_of_one_request_may_be_each_others_parents(site: Site) -> None:
    below, above = await site.add(command(parent="@first"), command(ref="first"))

    assert (await site.get(f"/v1/nodes/{below}"))["metadata"]["parent"] == above
    await site.refuse(400, "POST", "/v1/nodes", [command(parent="@nobody")])
    await site.refuse(400, "POST", "/v1/nodes", [command(ref="a"), command(ref="a")])


@story
async def test_nodes_that_wait_for_each_other_are_refused(site: Site) -> None:
    ring = [command(ref="a", parent="@b"), command(ref="b", parent="@a")]

    assert (await site.refuse(400, "POST", "/v1/nodes", ring))["code"] == "cycle_found"


@story
async def test_all_or_nothing_is_added(site: Site) -> None:
    problem = await site.refuse(400, "POST", "/v1/nodes", [command(), command(parent="999"), command()])
    assert problem["code"] == "unknown_parent"
    problem = await site.refuse(400, "POST", "/v1/nodes", [command(), {"metadata": {"type": "command"}, "data": {}}])
    assert problem["fields"]["index"] == 1
    assert "command" in problem["detail"]

    assert await site.get("/v1/nodes") == []


@story
async def test_an_unsupported_type_is_refused_with_the_known_ones(site: Site) -> None:
    problem = await site.refuse(400, "POST", "/v1/nodes", [{"metadata": {"type": "odd"}, "data": {}}])

    assert "command" in problem["detail"]


@story
async def test_a_key_is_had_once(site: Site) -> None:
    (one,) = await site.add(command(key="k"))

    assert (await site.refuse(409, "POST", "/v1/nodes", [command(key="k")]))["fields"]["task"] == int(one)
    reply = await site.ask("POST", "/v1/nodes", [command(key="k", on_conflict="return")])
    assert reply.json() == [{"id": one, "existed": True}]


@story
async def test_the_same_idempotency_key_and_body_return_the_existing_nodes(site: Site) -> None:
    header = {"idempotency-key": "order 66"}
    first = await site.ask("POST", "/v1/nodes", [command("a"), command("b")], headers=header)
    again = await site.ask("POST", "/v1/nodes", [command("a"), command("b")], headers=header)

    assert [node["id"] for node in again.json()] == [node["id"] for node in first.json()]
    assert all(node["existed"] for node in again.json())
    assert len(await site.get("/v1/nodes")) == 2


@story
async def test_the_same_idempotency_key_and_another_body_is_a_conflict(site: Site) -> None:
    header = {"idempotency-key": "k"}
    await site.ask("POST", "/v1/nodes", [command("a")], headers=header)

    problem = await site.refuse(409, "POST", "/v1/nodes", [command("b"), command("c")], headers=header)

    assert (problem["code"], problem["fields"]["index"]) == ("duplicate_key", 0)
    assert len(await site.get("/v1/nodes")) == 1
    await site.refuse(400, "POST", "/v1/nodes", [command()], headers={"idempotency-key": "x" * 300})
    await site.refuse(409, "POST", "/v1/nodes", [command("z", key="k 0", on_conflict="same")])


@story
async def test_what_a_run_makes_cannot_be_given(site: Site) -> None:
    for key in ("result", "stdout", "stderr", "mixedout"):
        node = command()
        node["data"][key] = "x"
        await site.refuse(400, "POST", "/v1/nodes", [node])


@story
async def test_a_queue_that_is_not_there_is_refused(site: Site) -> None:
    assert (await site.refuse(404, "POST", "/v1/nodes", [command(queue="nowhere")]))["code"] == "queue_not_found"
    await site.engine.queues.create("somewhere", by="somebody")
    (node,) = await site.add(command(queue="somewhere"))
    assert (await site.get(f"/v1/nodes/{node}"))["metadata"]["queue"] == "somewhere"


@story
async def test_malformed_bodies_are_refused(site: Site) -> None:
    for body in (b"", b"{", b"nonsense", b"[1]", b'{"metadata": {}}', b"\xff\xfe", b"[" * 5000, b'{"data": {}}'):
        reply = await site.client.post("/v1/nodes", content=body)
        assert (reply.status_code, reply.json()["code"]) == (400, "bad_input"), body[:20]


@story
async def test_what_no_command_can_have_is_refused_at_once(site: Site) -> None:
    for data in ({"env": {"A=B": "1"}}, {"env": {"": "1"}}, {"grace": -1}, {"limits": {"cpu": -1}}, {"args": ["a\0b"]}):
        body = {"metadata": {"type": "command"}, "data": {"command": "true", **data}}
        problem = await site.refuse(400, "POST", "/v1/nodes", body)
        assert problem["detail"].startswith("task 0 of the request: ")
