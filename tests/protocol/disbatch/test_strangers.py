"""The door on a database that programs of Disbatch share: their nodes and what those ran are shown like ours."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from ganger.core.ids import Position
from ganger.engine.store import Tend
from tests.protocol.disbatch.harness import DEMO, Site, Tale, serve


@pytest.fixture
def url(mongo_url: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return mongo_url()


def tell(url: str, tale: Tale) -> None:
    async def run() -> None:
        async with serve(url) as site:
            await tale(site)

    asyncio.run(run())


def test_their_nodes_are_shown_watched_and_limited(url: str) -> None:
    async def tale(site: Site) -> None:
        assert (await site.get("/monitoring"))["disbatch"]["status"] == "WARNING"
        with MongoClient[dict[str, Any]](url) as client:
            nodes = client.get_default_database().nodes
            face = str(nodes.insert_one({"node": "theirs", "timestamp": datetime.now(UTC), "queues": []}).inserted_id)
            (shown,) = await site.get("/nodes")
            assert (shown["_id"], shown["node"], shown["live"], shown["maxthreads"]) == (face, "theirs", True, None)
            assert await site.get(f"/nodes/{face}") == shown
            told = await site.post("/nodes/theirs", {"maxthreads": 2})
            assert told["MongoDB::UpdateResult"]["modified_count"] == 1
            assert nodes.find_one({"node": "theirs"}, {"_id": 0, "maxthreads": 1}) == {"maxthreads": 2}
        assert (await site.get("/monitoring"))["disbatch"]["status"] == "OK"
        assert [line.action for line in await site.engine.store.audit(Position(0))] == ["node.limit"]

    tell(url, tale)


def test_what_they_run_is_shown_with_its_node_and_its_output(url: str) -> None:
    async def tale(site: Site) -> None:
        await site.make_queue()
        done, running, waits = await site.make_tasks({"n": 1}, {"n": 2}, {"n": 3})
        with MongoClient[dict[str, Any]](url) as client:
            tasks = client.get_default_database().tasks
            ended = {"status": 1, "stdout": "out", "stderr": ""}
            for change in ({"parameters.n": 1}, ended), ({"parameters.n": 2}, {"status": 0}):
                tasks.update_one(change[0], {"$set": {"node": "theirs", **change[1]}})
        await site.engine.store.tend(Tend(release=True))
        shown = await site.get(f"/tasks/{done}")
        assert (shown["node"], shown["status"], shown["stdout"], shown["stderr"]) == ("theirs", 1, "out", "")
        assert [task["id"] for task in await site.get("/tasks", node="theirs", queue="demo")] == [done, running]
        assert (await site.get(f"/tasks/{waits}"))["node"] == -1
        assert (await site.get("/queues/demo"))["plugin"] == DEMO

    tell(url, tale)
