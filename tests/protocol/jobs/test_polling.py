"""Workers without websockets: a POST takes a job, a PUT answers it."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ganger.engine.store import Configure, Configured
from tests.protocol.jobs.harness import Site, serve, soon, story, story_in, story_with


async def take(site: Site, identity: str = "poller", path: str = "/api/work", **query: Any) -> httpx2.Response:
    headers = {"authorization": f"Bearer {site.secret}"}
    return await site.client.post(path, params={"id": identity, **query}, headers=headers)


async def answer(site: Site, job: httpx2.Response, result: bytes) -> httpx2.Response:
    return await site.client.put(f"/api/work/{job.headers['x-job-lease']}", content=result)


async def say(site: Site, job: httpx2.Response, what: str, **fields: object) -> httpx2.Response:
    return await site.client.post(f"/api/work/{job.headers['x-job-lease']}/{what}", json=fields)


@story_in
async def test_a_worker_takes_a_job_and_answers_it(site: Site, folder: Path) -> None:
    for payload in (b"small", b"large" * 200_000, b""):
        job = await site.submit(payload)
        taken = await take(site)
        assert (taken.status_code, taken.content) == (200, payload)
        assert taken.headers["x-job-id"] == job["id"]
        assert (await site.show(job["key"]))["status"] == "running"
        assert (await answer(site, taken, payload[::-1])).status_code == 204
        assert await site.read(job["key"], "result") == payload[::-1]
    assert not [node for node in await site.engine.nodes.all() if node.here]


@story
async def test_without_a_job_the_answer_is_empty_and_nothing_is_left(site: Site) -> None:
    assert (await take(site)).status_code == 204
    assert (await take(site, wait=0.05)).status_code == 204
    assert not [node for node in await site.engine.nodes.all() if node.here]


@story
async def test_who_waits_is_given_a_job_as_soon_as_there_is_one(site: Site) -> None:
    waiting = asyncio.ensure_future(take(site, wait=20))
    await soon(lambda: is_here(site, 1))
    await site.submit(b"x")
    assert (await waiting).content == b"x"


async def is_here(site: Site, number: int) -> bool:
    return len([node for node in await site.engine.nodes.all() if node.here]) == number


@story
async def test_one_that_goes_while_it_waits_leaves_nothing(site: Site) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        await site.client.post("/api/work?id=gone&wait=20", timeout=0.2)
    await soon(lambda: is_here(site, 0))
    job = await site.submit(b"x")
    assert (await site.show(job["key"], wait=0.2))["status"] == "pending"


@story
async def test_one_that_goes_while_it_is_registered_leaves_nothing(site: Site) -> None:
    configure, asked, registered = site.engine.store.configure, asyncio.Event(), asyncio.Event()

    async def dawdle(request: Configure) -> Configured:
        if request.node is not None and request.node.register is not None:
            asked.set()
            await gone.wait()
            registered.set()
        return await configure(request)

    gone = asyncio.Event()
    site.engine.store.configure = dawdle  # type: ignore[method-assign]
    taking = asyncio.ensure_future(take(site, wait=20))
    await asked.wait()
    taking.cancel()
    await asyncio.wait([taking])
    await soon(lambda: is_alone(site))
    gone.set()
    await registered.wait()
    await soon(lambda: is_here(site, 0))


async def is_alone(site: Site) -> bool:
    """Has the server seen that nobody waits for its answer any more?"""
    return len(site.server.service.door.visits) == 0


@story
async def test_a_failed_job_is_tried_again_with_its_logs_kept(site: Site) -> None:
    job = await site.submit(b"x")
    reply = await say(site, await take(site), "failed", info="broken", logs="why")
    assert reply.status_code == 204
    shown = await site.show(job["key"])
    assert (shown["status"], shown["tries"], shown["reason"]) == ("pending", 1, "broken")
    assert await site.read(job["key"], "logs") == b"why"


@story
async def test_progress_is_told_and_is_a_sign_of_life(site: Site) -> None:
    job = await site.submit(b"x")
    taken = await take(site)
    assert (await say(site, taken, "progress", percent=10, info="on")).json() == {"kill": False}
    shown = await site.show(job["key"])
    assert (shown["percent"], shown["info"], shown["started"] is not None) == (10.0, "on", True)
    assert (await site.client.post(f"/api/work/{taken.headers['x-job-lease']}/progress")).status_code == 200
    assert (await say(site, taken, "progress", percent=101)).status_code == 400


@story
async def test_a_worker_is_told_that_its_job_is_to_be_killed(site: Site) -> None:
    await site.submit(b"x")
    taken = await take(site)
    task = int(taken.headers["x-job-lease"].split(".")[1])
    await site.client.put("/v1/scheduler/kill", params={"id": str(task)})
    assert (await say(site, taken, "progress", info="on")).json() == {"kill": True}


@story
async def test_a_result_that_comes_twice_or_for_another_is_refused(site: Site) -> None:
    job = await site.submit(b"x")
    taken = await take(site)
    assert (await answer(site, taken, b"first")).status_code == 204
    assert (await answer(site, taken, b"second")).status_code == 409
    assert await site.read(job["key"], "result") == b"first"


@pytest.mark.parametrize("part", [0, 1, 2, 3])
def test_a_lease_of_which_anything_is_changed_is_refused(part: int) -> None:
    async def tell() -> None:
        async with serve() as site:
            job = await site.submit(b"x")
            taken = await take(site)
            words = taken.headers["x-job-lease"].split(".")
            words[part] = "9" if part < 3 else "0" * 32
            reply = await site.client.put(f"/api/work/{'.'.join(words)}", content=b"forged")
            assert reply.status_code in (404, 409), reply.text
            assert (await site.show(job["key"]))["status"] == "running"

    asyncio.run(tell())


@pytest.mark.parametrize("lease", ["x", "1.2.3", "1.2.3.4.5", "0.0.0.x", "-1.1.1.x", "a.b.c.d"])
def test_what_is_no_lease_is_refused(lease: str) -> None:
    async def tell() -> None:
        async with serve() as site:
            await site.refuse(400, "PUT", f"/api/work/{lease}", content=b"x")

    asyncio.run(tell())


@story_with(job_types="a, b")
async def test_types_are_kept_apart_here_too(site: Site) -> None:
    await site.submit(b"for a", to="/api/jobs/submit/a")
    assert (await take(site, path="/api/work/b")).status_code == 204
    assert (await take(site, path="/api/work/a")).content == b"for a"
    assert (await take(site, path="/api/work")).status_code == 404
    assert (await take(site, path="/api/work/z")).status_code == 404
    site.secret = site.server.tokens.add("only a", ["work:jobs.a"]).token
    assert (await take(site, path="/api/work/b")).status_code == 403


@story
async def test_a_worker_without_an_id_is_refused(site: Site) -> None:
    await site.refuse(400, "POST", "/api/work")
    await site.refuse(400, "POST", "/api/work?id=")
    await site.refuse(400, "POST", "/api/work?id=x&wait=1000")
