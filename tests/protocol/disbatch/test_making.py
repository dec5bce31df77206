"""The routes that make tasks."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from ganger.faces.disbatch.backend import DisbatchBackend
from ganger.faces.disbatch.door import list_routes
from ganger.faces.disbatch.faces import PlainFaces
from ganger.faces.http.routes import Table
from ganger.runtime.clock import SystemClock
from tests.protocol.disbatch.harness import Site, everywhere, serve, story


@everywhere
async def test_an_array_of_params_makes_a_task_of_each(site: Site) -> None:
    face = await site.make_queue()

    made = (await site.post("/tasks/demo", [{"n": 1}, {"n": 2}]))["MongoDB::InsertManyResult"]
    assert [one["index"] for one in made["inserted"]] == [0, 1]
    assert made["inserted_count"] == 2
    assert len(await site.make_tasks({"n": 3}, queue=face)) == 1
    found = await site.get("/tasks", queue="demo")
    assert [task["parameters"]["n"] for task in found] == [1, 2, 3]


@story
async def test_one_route_takes_the_queue_in_its_body(site: Site) -> None:
    await site.make_queue()

    await site.post("/tasks", {"queue": "demo", "params": {"n": 1}})
    made = await site.post("/tasks", {"queue": "demo", "params": [{"n": 2}, {"n": 3}]})
    assert made["MongoDB::InsertManyResult"]["inserted_count"] == 2
    assert await site.get("/tasks", **{"queue": "demo", ".count": 1}) == {"count": 3}


@story
async def test_what_is_no_array_of_params_makes_no_task(site: Site) -> None:
    await site.make_queue()
    body: Any
    for body in ({"n": 1}, "x", 5):
        refused = await site.refuse("POST", "/tasks/demo", body)
        assert refused["error"] == "params must be a JSON array of task params"
    for body in ([], [1], [{"n": 1}, "x"]):
        assert "objects" in (await site.refuse("POST", "/tasks/demo", body))["error"]
    assert "key/value" in (await site.refuse("POST", "/tasks/demo", [{"n": 1}, {}]))["error"]
    for body in ({"queue": "demo"}, {"queue": "demo", "params": 1}, {"queue": "demo", "params": {}, "x": 1}):
        assert (await site.refuse("POST", "/tasks", body))["error"] == "invalid parameters passed"
    broken = await site.refuse("POST", "/tasks/demo", content=b"[{", headers={"content-type": "application/json"})
    assert "not JSON" in broken["error"]
    assert await site.get("/tasks", **{"queue": "demo", ".count": 1}) == {"count": 0}


@story
async def test_a_queue_that_is_not_there_is_not_found(site: Site) -> None:
    for queue in ("nowhere", "571f8951b75bf335634ec271"):
        assert (await site.refuse("POST", f"/tasks/{queue}", [{"n": 1}]))["error"] == "queue not found"
        body = {"queue": queue, "params": {"n": 1}}
        assert (await site.refuse("POST", "/tasks", body))["error"] == "queue not found"
    assert (await site.refuse("POST", "/tasks", {"params": {"n": 1}}))["error"] == "queue not found"


def test_a_store_without_collections_says_so() -> None:
    async def tell() -> None:
        async with serve("memory:") as site:
            await site.make_queue()
            template = {"filter": {}, "params": {"user": "document.name"}}
            assert "no collections" in (await site.refuse("POST", "/tasks/demo/users", template))["error"]
            body = {"queue": "demo", "collection": "users", **template}
            assert "no collections" in (await site.refuse("POST", "/tasks", body))["error"]

    asyncio.run(tell())


@story
async def test_a_collection_needs_a_filter_and_params(site: Site) -> None:
    await site.make_queue()
    body: Any
    for body in ({}, {"filter": {}}, {"params": {}}, {"filter": 1, "params": {}}, {"filter": {}, "params": []}, []):
        refused = await site.refuse("POST", "/tasks/demo/users", body)
        assert refused["error"] == "filter and params required and must be name/value objects"


@story
async def test_a_filter_runs_no_program_in_the_database(site: Site) -> None:
    await site.make_queue()
    for name in ({"$where": "1"}, {"$or": [{"a": {"$expr": 1}}]}):
        refused = await site.refuse("POST", "/tasks/demo/users", {"filter": name, "params": {"n": 1}})
        assert "not allowed" in refused["error"]
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    assert "deep" in (await site.refuse("POST", "/tasks/demo/users", {"filter": deep, "params": {"n": 1}}))["error"]


class Users:
    """Collections in memory."""

    async def find(
        self, collection: str, filter_: Mapping[str, Any], fields: Sequence[str]
    ) -> AsyncGenerator[Mapping[str, Any], None]:
        assert (collection, list(fields)) == ("users", ["mail.home", "name"])
        for name in ("ada", "bob"):
            if filter_.get("name") in (None, name):
                yield {"name": name, "mail": {"home": f"{name}@example.com"}}


def test_each_document_of_a_collection_becomes_a_task() -> None:
    async def tell() -> None:
        async with serve("memory:") as site:
            await site.make_queue()
            _give_collections(site, Users())
            params = {"user": "document.name", "mail": "document.mail.home", "fixed": "as it is"}
            made = await site.post("/tasks/demo/users", {"filter": {}, "params": params})
            assert made["MongoDB::InsertManyResult"]["inserted_count"] == 2
            found = await site.get("/tasks", queue="demo")
            assert [task["parameters"] for task in found] == [
                {"user": name, "mail": f"{name}@example.com", "fixed": "as it is"} for name in ("ada", "bob")
            ]
            refused = await site.refuse("POST", "/tasks/demo/users", {"filter": {"name": "eve"}, "params": params})
            assert "no document matches" in refused["error"]
            await site.refuse(
                "POST", "/tasks/demo/users", {"filter": {}, "params": params}, status=403, headers=site.token("submit")
            )

    asyncio.run(tell())


def _give_collections(site: Site, users: Users) -> None:
    """The same door, over a store that has collections."""
    door = site.server.service.door
    others = [row for row in door.table.rows if not row.path.startswith("/disbatch")]
    backend = DisbatchBackend(site.engine, SystemClock(), PlainFaces(site.engine, 0), collections=users)
    door.table = Table([*others, *list_routes(backend)])
