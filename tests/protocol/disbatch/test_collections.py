"""Documents of a real MongoDB, as tasks are made from them."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson import Decimal128, ObjectId
from pymongo import MongoClient

from ganger.core.errors import BadInput
from ganger.databases.mongo.collections import Collections
from ganger.engine.store import Tend
from tests.foreign import dcn
from tests.protocol.disbatch.harness import PATIENCE, serve

FACE = "571f8951b75bf335634ec271"


@pytest.fixture
def url(mongo_url: Callable[[], str]) -> str:
    """A database with two users."""
    made = mongo_url()
    with MongoClient[dict[str, Any]](made) as client:
        users = client.get_default_database().users
        users.insert_many([{"_id": ObjectId(FACE), "name": "ada", "age": 36, "mail": {"home": "ada@example.com"}}])
        users.insert_many([{"name": "bob", "since": datetime(2020, 1, 2, tzinfo=UTC), "paid": Decimal128("1.50")}])
    return made


def find(url: str, filter_: Mapping[str, Any], *fields: str, collection: str = "users") -> list[Mapping[str, Any]]:
    async def run() -> list[Mapping[str, Any]]:
        collections = Collections(url)
        try:
            async with aclosing(collections.find(collection, filter_, fields)) as found:
                return [document async for document in found]
        finally:
            await collections.close()

    return asyncio.run(run())


def test_documents_come_with_the_fields_that_are_asked_for(url: str) -> None:
    assert find(url, {"name": "ada"}, "mail.home", "age") == [
        {"_id": FACE, "age": 36, "mail": {"home": "ada@example.com"}}
    ]
    assert find(url, {"name": "eve"}) == []
    assert find(url, {}, collection="nowhere") == []


def test_what_json_cannot_say_becomes_a_text(url: str) -> None:
    (bob,) = find(url, {"name": "bob"}, "since", "paid")

    assert (bob["since"], bob["paid"]) == ("2020-01-02T00:00:00Z", "1.50")


def test_an_id_in_a_filter_is_written_as_json_writes_it(url: str) -> None:
    (found,) = find(url, {"_id": {"$in": [{"$oid": FACE}]}}, "name")

    assert found["name"] == "ada"
    with pytest.raises(BadInput, match="Bad OID"):
        find(url, {"_id": {"$oid": "x"}})


def test_a_filter_that_is_none_is_told(url: str) -> None:
    with pytest.raises(BadInput, match="Could not iterate on collection users"):
        find(url, {"name": {"$nonsense": 1}})


def test_collections_of_the_store_and_of_the_server_are_not_for_tasks(url: str) -> None:
    for name in ("ganger_events", "system.users", "$cmd"):
        with pytest.raises(BadInput, match="not for tasks"):
            find(url, {}, collection=name)


def test_each_document_becomes_a_task_of_the_same_database(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def tell() -> None:
        async with serve(url) as site:
            await site.make_queue()
            params = {"user": "document.name", "id": "document._id", "fixed": "as it is"}
            await site.post("/tasks/demo/users", {"filter": {"age": {"$gt": 30}}, "params": params})
            (task,) = await site.get("/tasks", queue="demo")
            assert task["parameters"] == {"user": "ada", "id": FACE, "fixed": "as it is"}
            refused = await site.refuse("POST", "/tasks/demo/users", {"filter": {"a": {"$no": 1}}, "params": params})
            assert refused["error"].startswith("Could not iterate on collection users")

    asyncio.run(tell())


def test_a_task_of_a_stranger_is_found_by_the_id_that_it_gave(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def tell() -> None:
        async with serve(url) as site:
            queue = await site.make_queue()
            task = dcn.describe(ObjectId(queue), {"n": 7})
            with MongoClient[dict[str, Any]](url) as client:
                client.get_default_database().tasks.insert_one({**task, "_id": ObjectId(FACE)})
            async with asyncio.timeout(PATIENCE):
                while (await site.ask("GET", f"/tasks/{FACE}")).status_code == 404:
                    await site.engine.store.tend(Tend(release=True))
            shown = await site.get(f"/tasks/{FACE}")
            assert (shown["_id"], shown["queue"], shown["parameters"]) == (FACE, queue, {"n": 7})
            await site.refuse("GET", "/tasks/571f8951b75bf335634ec272", status=404)

    asyncio.run(tell())
