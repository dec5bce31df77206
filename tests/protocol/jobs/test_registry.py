"""The registry: each sentence of the protocol about what it can do and what survives."""

import asyncio
from pathlib import Path

import pytest

from ganger.engine.store import Query
from tests.protocol.jobs.harness import Site, serve, soon, story, story_in, story_with


@story
async def test_the_uniqueness_of_a_key_is_checked_with_thread_safety(site: Site) -> None:
    replies = await asyncio.gather(*(site.post(b"x", priority="batch", key="one") for _ in range(20)))
    assert sorted(reply.status_code for reply in replies) == [201] + [400] * 19
    assert len((await site.get("/api/jobs"))["jobs"]) == 1


@story
async def test_a_job_can_be_removed(site: Site) -> None:
    for method, path in (("DELETE", "/api/jobs/k"), ("POST", "/api/jobs/k/delete")):
        await site.submit(b"x", key="k")
        assert (await site.client.request(method, path)).status_code == 204
        assert "no job 'k'" in await site.refuse(404, "GET", "/api/jobs/k")
        assert "no job 'k'" in await site.refuse(404, method, path)
    assert (await site.get("/api/jobs"))["counts"]["pending"] == 0


@story
async def test_a_job_that_runs_is_taken_from_its_worker_before_it_is_removed(site: Site) -> None:
    await site.submit(b"x", key="k")
    async with site.join() as worker:
        await worker.take()
        ending = asyncio.ensure_future(worker.end())
        assert (await site.client.delete("/api/jobs/k")).status_code == 204
        assert (await ending)[0] == 1008
    assert "no job" in await site.refuse(404, "GET", "/api/jobs/k")


@story
async def test_the_status_of_a_job_is_pending_running_complete_or_failed(site: Site) -> None:
    for key in ("failed", "complete", "running", "pending"):
        await site.submit(key.encode(), key=key)
    async with site.join() as worker:
        for _ in range(4):
            payload = await worker.take()
            if payload == b"running":
                break
            await (worker.give(b"") if payload == b"complete" else worker.say({"code": 4}))
        (failed,) = (await site.engine.find(Query(key="failed"))).tasks
        await site.engine.cancel([failed.id], by="test")
        for status in ("failed", "complete", "running", "pending"):
            (job,) = (await site.get("/api/jobs", status=status))["jobs"]
            assert (job["key"], job["status"]) == (status, status)
        assert (await site.get("/api/jobs"))["counts"] == dict.fromkeys(("pending", "running", "complete", "failed"), 1)
        both = await site.get("/api/jobs", status="failed,complete")
        assert {job["key"] for job in both["jobs"]} == {"failed", "complete"}


@story
async def test_data_of_all_jobs_can_be_retrieved_page_by_page(site: Site) -> None:
    keys = [(await site.submit(b"x", key=f"k{number}"))["key"] for number in range(7)]
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = await site.get("/api/jobs", limit=3, **after)
        seen += [job["key"] for job in page["jobs"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert seen == keys
    newest = await site.get("/api/jobs", limit=2, newest="true")
    assert [job["key"] for job in newest["jobs"]] == keys[:-3:-1]
    assert [job["key"] for job in (await site.get("/api/jobs", key="k4"))["jobs"]] == ["k4"]


@pytest.mark.parametrize("query", ["status=odd", "limit=0", "limit=x", "after=-1", "newest=1", "batch=x", "what=1"])
def test_a_filter_that_nobody_knows_is_refused(query: str) -> None:
    async def tell() -> None:
        async with serve() as site:
            await site.refuse(400, "GET", f"/api/jobs?{query}")

    asyncio.run(tell())


@story_with(job_types="a")
async def test_a_filter_by_a_type_that_is_not_there_is_refused(site: Site) -> None:
    await site.refuse(404, "GET", "/api/jobs?type=z")


@story
async def test_a_client_can_wait_for_the_end_of_a_job(site: Site) -> None:
    await site.submit(b"x", key="k")
    assert (await site.show("k", wait=0.05))["status"] == "pending"
    waiting = asyncio.ensure_future(site.read("k", "result", wait=20))
    async with site.join() as worker:
        await worker.take()
        await worker.give(b"result")
        assert await waiting == b"result"
    for wrong in ("x", "-1", "1e9", "nan"):
        await site.refuse(400, "GET", f"/api/jobs/k?wait={wrong}")


@story
async def test_a_result_that_is_not_there_yet_is_said_so(site: Site) -> None:
    await site.submit(b"x", key="k")
    assert "is pending" in await site.refuse(409, "GET", "/api/jobs/k/result")


@story
async def test_only_jobs_are_seen_at_this_door(site: Site) -> None:
    reply = await site.client.post(
        "/v1/nodes", json=[{"metadata": {"type": "command", "key": "c"}, "data": {"command": "true"}}]
    )
    assert reply.status_code == 201, reply.text
    assert "no job" in await site.refuse(404, "GET", "/api/jobs/c")
    assert (await site.get("/api/jobs"))["jobs"] == []


@story
async def test_jobs_are_seen_at_the_other_doors(site: Site) -> None:
    await site.submit(b"x", key="k", description="d")
    (task,) = (await site.engine.find(Query(key="k"))).tasks
    assert (task.kind, task.description) == ("payload", "d")
    shown = await site.get(f"/v1/nodes/{task.id}")
    assert shown["metadata"]["type"] == "payload"


@pytest.mark.parametrize("key", ["nothing", "01234567-89ab-cdef-0123-456789abcdef", "%00", "a" * 300])
def test_a_key_that_names_no_job_is_not_found(key: str) -> None:
    async def tell() -> None:
        async with serve() as site:
            for what in ("", "/payload", "/result", "/logs"):
                await site.refuse(404, "GET", f"/api/jobs/{key}{what}")

    asyncio.run(tell())


def test_if_the_server_goes_down_no_metadata_payload_or_result_is_lost(tmp_path: Path) -> None:
    large = b"large" * 100_000

    async def before() -> None:
        async with serve(tmp_path) as site:
            for key, payload in (("done", b"small"), ("open", large)):
                await site.submit(payload, key=key, description=key)
            async with site.join() as worker:
                assert await worker.take() == b"small"
                await worker.give(large)
                await site.show("done", wait=10)

    async def after() -> None:
        async with serve(tmp_path) as site:
            done, waiting = await site.show("done"), await site.show("open")
            assert (done["status"], done["description"]) == ("complete", "done")
            assert (waiting["status"], waiting["description"]) == ("pending", "open")
            assert await site.read("done", "result") == large
            assert await site.read("open", "payload") == large

    asyncio.run(before())
    asyncio.run(after())


@story_in
async def test_payloads_and_results_of_any_size_pass_through(site: Site, folder: Path) -> None:
    for size in (0, 1, 125, 126, 65_535, 65_536, 256 << 10, (256 << 10) + 1, 3 << 20):
        payload = bytes(size % 251 for _ in range(min(size, 1))) * size
        job = await site.submit(payload)
        async with site.join() as worker:
            assert await worker.take() == payload
            await worker.give(payload[::-1])
            assert await site.read(job["key"], "result", wait=10) == payload[::-1]


@story
async def test_the_logs_are_those_of_the_last_failure(site: Site) -> None:
    await site.submit(b"x", key="k")
    async with site.join() as worker:
        for number in range(2):
            await worker.take()
            await worker.say({"code": 4, "logs": f"failure {number}", "info": None})
        await worker.take()
        await soon(lambda: _has_logs(site, b"failure 1"))


async def _has_logs(site: Site, logs: bytes) -> bool:
    return await site.read("k", "logs") == logs
