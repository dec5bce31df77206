"""The description of the API: it is whole, it is true, and people can read it."""

import re
from typing import Any

import msgspec

from ganger.faces.http.request import WEBSOCKET
from tests.protocol.v1.harness import Site, command, list_own_rows, story

TICK = {"metadata": {"type": "command"}}


def answer_type(site: Site, method: str, path: str) -> Any:
    return next(
        route.answer for route in site.server.service.door.table.rows if (route.method, route.path) == (method, path)
    )


@story
async def test_every_route_is_described_with_parameters_scope_and_answers(site: Site) -> None:
    document = await site.get("/openapi.json")

    assert document["openapi"] == "3.1.0"
    for route in list_own_rows(site):
        if route.path in ("/", "/openapi.json", "/docs") or route.method == WEBSOCKET:
            continue
        told = document["paths"][route.path][route.method.lower()]
        named = {one["name"] for one in told["parameters"] if one["in"] == "query"}
        assert named == route.parameters
        assert all(one.get("description") for one in told["parameters"])
        assert told.get("x-scope", "open") == route.need
        assert {str(route.status), "default"} == set(told["responses"])
        assert ("requestBody" in told) == (route.body is not None)


@story
async def test_a_parameter_is_told_as_what_it_is_at_its_own_address(site: Site) -> None:
    paths = (await site.get("/openapi.json"))["paths"]

    def text(method: str, path: str, name: str) -> str:
        told = next(one for one in paths[path][method]["parameters"] if one["name"] == name)
        return str(told["description"])

    assert "bytes" in text("get", "/v1/nodes/{id}/data/{key}", "limit")
    assert "bytes" in text("get", "/v1/nodes/{id}/logs", "limit")
    assert "page" in text("get", "/v1/nodes", "limit")
    assert "ticks" in text("get", "/v1/schedules/{name}/ticks", "limit")
    assert "1970" in text("get", "/v1/schedules/{name}/ticks", "after")
    assert "events" in text("get", "/v1/events", "after")
    assert "jobs" in text("get", "/api/jobs", "after")
    assert "unset" in text("put", "/v1/nodes/{id}/data/{key}", "start")
    assert "unset" not in text("get", "/v1/nodes", "start")
    assert "worker" in text("post", "/api/work", "id")
    assert "end of the job" in text("get", "/api/jobs/{key}", "wait")
    assert "for a job" in text("post", "/api/work", "wait")
    assert "something to tell" in text("get", "/v1/engine/events", "wait")
    assert "name of your own" in text("post", "/api/jobs/submit", "key")
    assert "schedule" in text("get", "/v1/schedules/{name}", "name")


@story
async def test_the_data_of_each_type_are_described_and_so_is_each_probe(site: Site) -> None:
    schemas = (await site.get("/openapi.json"))["components"]["schemas"]

    told = [one.get("$ref", "").rpartition("/")[2] for one in schemas["NodeIn"]["properties"]["data"]["anyOf"]]
    assert told[:4] == ["CommandData", "ShellData", "FunctionData", "ConditionData"]
    assert {"command", "args", "cwd", "env"} <= set(schemas["CommandData"]["properties"])
    probes = schemas["ConditionData"]["properties"]["probe"]["discriminator"]["mapping"]
    assert set(probes) == {"time", "delay", "file", "port", "url", "command", "expression"}
    for name in probes.values():
        assert schemas[name.rpartition("/")[2]]["description"]


@story
async def test_the_root_leads_to_the_description(site: Site) -> None:
    reply = await site.ask("GET", "/", headers={"authorization": ""})

    assert (reply.status_code, reply.headers["location"]) == (303, "/docs")
    assert (await site.ask("GET", reply.headers["location"])).status_code == 200
    await site.refuse(405, "POST", "/")


@story
async def test_every_reference_leads_to_a_schema(site: Site) -> None:
    reply = await site.ask("GET", "/openapi.json")
    schemas = reply.json()["components"]["schemas"]

    assert {"NodeIn", "MetadataIn", "PatchIn", "ValueIn", "Problem"} <= set(schemas)
    for name in re.findall(r'"#/components/schemas/(\w+)"', reply.text):
        assert name in schemas


@story
async def test_answers_are_what_the_description_says(site: Site) -> None:
    above, below = await site.add(command(ref="a", key="k"), command("echo", "x", parent="@a"))
    running, _ = await site.add(command(), command())
    await site.finish(above)
    await site.take(running)
    one = f"/v1/nodes/{below}"
    asked: list[tuple[str, str, str, Any]] = [
        ("POST", "/v1/nodes", "/v1/nodes", [command(), command(key="k", on_conflict="return")]),
        ("GET", "/v1/nodes", "/v1/nodes", None),
        ("GET", "/v1/nodes", "/v1/nodes?limit=1", None),
        ("GET", "/v1/nodes", "/v1/nodes?metadata=type,due,group", None),
        ("GET", "/v1/nodes/{id}", one, None),
        ("PATCH", "/v1/nodes/{id}", one, {"metadata": {"priority": 1}}),
        ("GET", "/v1/nodes/{id}/data", f"{one}/data?limit=1", None),
        ("GET", "/v1/nodes/{id}/data/{key}", f"{one}/data/args", None),
        ("PUT", "/v1/nodes/{id}/data/{key}", f"{one}/data/k", {"value": 1}),
        ("GET", "/v1/nodes/{id}/why", f"{one}/why", None),
        ("GET", "/v1/graph", "/v1/graph?limit=2", None),
        ("GET", "/v1/scheduler/running", "/v1/scheduler/running", None),
        ("GET", "/v1/scheduler/wait", f"/v1/scheduler/wait?id={above}", None),
        ("PUT", "/v1/scheduler/kill", f"/v1/scheduler/kill?id={above},{below}", None),
        ("POST", "/v1/actions", "/v1/actions", {"action": "retry", "ids": [above, below, "999"]}),
        ("GET", "/v1/queues", "/v1/queues", None),
        ("GET", "/v1/workers", "/v1/workers", None),
        ("GET", "/v1/stats", "/v1/stats?slots=4", None),
        ("POST", "/v1/queues", "/v1/queues", {"name": "q", "retries": 2}),
        ("GET", "/v1/queues/{name}", "/v1/queues/q", None),
        ("PATCH", "/v1/queues/{name}", "/v1/queues/q", {"paused": True}),
        ("POST", "/v1/schedules", "/v1/schedules", {"name": "n", "cron": "@daily", **command()} | TICK),
        ("GET", "/v1/schedules", "/v1/schedules", None),
        ("GET", "/v1/schedules/{name}", "/v1/schedules/n", None),
        ("PATCH", "/v1/schedules/{name}", "/v1/schedules/n", {"paused": True}),
        ("GET", "/v1/schedules/{name}/ticks", "/v1/schedules/n/ticks", None),
    ]
    for method, path, address, body in asked:
        reply = await site.ask(method, address, body)
        assert reply.status_code < 300, reply.text
        msgspec.json.decode(reply.content, type=answer_type(site, method, path))
    described = {(method, path) for method, path, _, _ in asked}
    assert described >= {(row.method, row.path) for row in list_own_rows(site) if row.answer}


@story
async def test_people_can_read_it_without_anything_from_elsewhere(site: Site) -> None:
    reply = await site.ask("GET", "/docs")

    assert reply.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "<script" not in reply.text
    assert "/v1/nodes/{id}/data/{key}" in reply.text
    assert '<a href="#NodeIn">NodeIn</a>' in reply.text
