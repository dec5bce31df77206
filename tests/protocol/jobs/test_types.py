"""Job types: what they keep apart, and what flows from one to the next."""

import asyncio
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from ganger.core.errors import BadInput, Conflict
from tests.protocol.jobs.harness import Site, serve, soon, story, story_with

CHAIN = "frame > film, film"


@story_with(job_types="a, b")
async def test_submission_and_worker_connection_are_segregated_by_job_type(site: Site) -> None:
    await site.submit(b"for a", to="/api/jobs/submit/a")
    await site.submit(b"for b", to="/api/jobs/submit/b")
    async with site.join("b", "/api/worker/b") as of_b, site.join("a", "/api/worker/a") as of_a:
        assert await of_b.take() == b"for b"
        assert await of_a.take() == b"for a"
    assert [job["type"] for job in (await site.get("/api/jobs"))["jobs"]] == ["a", "b"]
    assert [job["type"] for job in (await site.get("/api/jobs", type="b"))["jobs"]] == ["b"]


@story_with(job_types="a")
async def test_if_job_types_are_configured_the_endpoints_become_the_typed_ones(site: Site) -> None:
    reply = await site.post(b"x", priority="batch")
    assert reply.status_code == 404
    with pytest.raises(InvalidStatus) as caught:
        async with site.dial("/api/worker"):
            pass
    assert caught.value.response.status_code == 404
    assert (await site.submit(b"x", to="/api/jobs/submit/a"))["type"] == "a"


@story
async def test_without_job_types_the_typed_endpoints_are_not_there(site: Site) -> None:
    reply = await site.post(b"x", "/api/jobs/submit/a", priority="batch")
    assert reply.status_code == 404
    with pytest.raises(InvalidStatus) as caught:
        async with site.dial("/api/worker/a"):
            pass
    assert caught.value.response.status_code == 404


@story_with(job_types="a")
async def test_a_type_that_is_not_in_the_list_is_not_there(site: Site) -> None:
    assert "there are a" in await site.refuse(404, "POST", "/api/jobs/submit/z?priority=batch", content=b"x")
    with pytest.raises(InvalidStatus) as caught:
        async with site.dial("/api/worker/z"):
            pass
    assert caught.value.response.status_code == 404


@pytest.mark.parametrize("result", [b"small", b"large" * 200_000])
def test_completed_results_of_one_type_automatically_become_new_jobs_of_another(result: bytes, tmp_path: Path) -> None:
    async def tell() -> None:
        async with serve(tmp_path, job_types=CHAIN) as site:
            first = await site.submit(b"raw", "immediate", "/api/jobs/submit/frame", key="k", description="d")
            async with site.join("one", "/api/worker/frame") as worker:
                assert await worker.take() == b"raw"
                await worker.give(result)
                await site.show(first["key"], wait=10)
            (following,) = (await site.get("/api/jobs", type="film"))["jobs"]
            assert (following["priority"], following["description"]) == ("immediate", "d")
            assert following["key"] == following["id"]
            async with site.join("two", "/api/worker/film") as worker:
                assert await worker.take() == result
                await worker.give(b"end")
                assert (await site.show(following["id"], wait=10))["status"] == "complete"
            assert await site.read(first["key"], "result") == result

    asyncio.run(tell())


@pytest.mark.parametrize(
    ("types", "why"),
    [
        ("a > b, b > a", "circle"),
        ("a > a", "circle"),
        ("a > b, b > c, c > b", "circle"),
        ("a > b", "no type"),
        ("a, a", "twice"),
        ("a/b", "slash"),
        ("a >", "1 to 200"),
    ],
)
def test_types_that_make_no_sense_are_a_clear_error_at_the_start(types: str, why: str) -> None:
    async def tell() -> None:
        async with serve(job_types=types):
            pass

    with pytest.raises(BadInput, match=why):
        asyncio.run(tell())


def test_a_mismatch_with_the_database_is_a_clear_error_at_the_start(tmp_path: Path) -> None:
    async def start(types: str) -> None:
        async with serve(tmp_path, job_types=types) as site:
            if types == CHAIN:
                await site.submit(b"x", to="/api/jobs/submit/frame")

    asyncio.run(start(CHAIN))
    asyncio.run(start(f"{CHAIN}, more"))
    with pytest.raises(Conflict, match=r"jobs\.frame.*another place for its results"):
        asyncio.run(start("frame, film"))
    with pytest.raises(Conflict, match="1 unfinished jobs"):
        asyncio.run(start("film"))
    with pytest.raises(Conflict, match="1 unfinished jobs"):
        asyncio.run(start(""))


def test_a_setting_that_is_wrong_is_named(tmp_path: Path) -> None:
    async def start(**wrong: str) -> None:
        async with serve(tmp_path, **wrong):
            pass

    workers = ("worker_auth", "worker_grace", "worker_silence", "worker_return", "worker_frame")
    for name in ("job_batch", "job_tries", *workers):
        with pytest.raises(BadInput, match=name):
            asyncio.run(start(**{name: "much"}))


@story_with(job_types="a, b")
async def test_a_worker_of_one_type_needs_a_token_for_it(site: Site) -> None:
    site.secret = site.server.tokens.add("only a", ["work:jobs.a"]).token
    async with site.join("w", "/api/worker/a"):
        await soon(lambda: _has_worker(site))
    async with site.dial("/api/worker/b") as worker:
        await worker.say({"code": 0, "name": "w", "id": "w", "token": site.secret})
        assert (await worker.end())[0] == 1008


async def _has_worker(site: Site) -> bool:
    return any(worker["state"] == "ready" for worker in await site.workers())
