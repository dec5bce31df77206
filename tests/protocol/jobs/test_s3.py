"""Jobs whose payloads and results are in a bucket, and pass the server by when the worker asks for that."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ganger.assembly.registry import open_parts
from ganger.assembly.server import open_backend, open_server
from ganger.assembly.settings import Settings
from ganger.core.errors import BadInput
from ganger.core.queue import Policy
from ganger.core.task import Kind, NewTask
from ganger.engine.blobs.bucket import Bucket, BucketPlace
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from tests.protocol.jobs.harness import PATIENCE, Site, soon, story
from tests.protocol.jobs.test_polling import answer, say
from tests.protocol.jobs.test_polling import take as poll
from tests.protocol.jobs.test_second import give, join
from tests.servers.moto import MotoServer

LARGE = b"large" * 200_000
RESULT = b"result" * 200_000


def make_settings(place: BucketPlace, folder: Path) -> Settings:
    return Settings(
        store=f"sqlite:{folder / 'tasks.db'}", listen="127.0.0.1:0", blobs=f"s3://{place.bucket}/{place.prefix}",
        s3_endpoint=place.endpoint, s3_region=place.region, s3_key=place.key, s3_secret=place.secret,
    )  # fmt: skip


@asynccontextmanager
async def serve_bucket(place: BucketPlace, folder: Path) -> AsyncIterator[Site]:
    settings = make_settings(place, folder)
    async with (
        asyncio.timeout(PATIENCE),
        open_backend(settings) as engine,
        open_server(settings, engine) as server,
    ):
        headers = {"authorization": f"Bearer {server.tokens.admin_path.read_text().strip()}"}
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE) as client:
            yield Site(engine, server, client)


def play(moto: MotoServer, folder: Path, tell: Callable[[Site, Bucket], Awaitable[None]]) -> None:
    async def run() -> None:
        place = moto.make_bucket()
        async with serve_bucket(place, folder) as site:
            await tell(site, Bucket(place))

    asyncio.run(run())


async def fetch(url: str) -> bytes:
    """As a stranger: no token of ours, no key of the bucket's."""
    async with httpx2.AsyncClient(timeout=PATIENCE) as stranger:
        reply = await stranger.get(url)
        assert reply.status_code == 200, reply.text
        return reply.content


async def upload(url: str, content: bytes) -> None:
    async with httpx2.AsyncClient(timeout=PATIENCE) as stranger:
        reply = await stranger.put(url, content=content)
        assert reply.status_code == 200, reply.text


def test_large_payloads_and_results_are_in_the_bucket_and_nowhere_else(moto: MotoServer, tmp_path: Path) -> None:
    async def tell(site: Site, bucket: Bucket) -> None:
        job = await site.submit(LARGE)
        async with site.join() as worker:
            assert await worker.take() == LARGE
            await worker.give(RESULT)
            assert (await site.show(job["key"], wait=30))["status"] == "complete"
        assert await site.read(job["key"], "payload") == LARGE
        assert await site.read(job["key"], "result") == RESULT
        assert sum([1 async for _ in bucket.list("seals/")]) == 2

    play(moto, tmp_path, tell)
    assert not list(tmp_path.glob("*-blobs"))


def test_large_data_of_any_task_are_in_the_bucket(moto: MotoServer, tmp_path: Path) -> None:
    async def tell(site: Site, bucket: Bucket) -> None:
        queue = await site.engine.queues.ensure("plain", Policy(), by="test")
        (task,) = (await site.engine.submit([NewTask(queue.id, Kind.COMMAND, b'["true"]')])).ids
        await site.engine.put_data(task, "plan", LARGE)
        assert (await site.engine.read_data(task, "plan", 5, 5)).body == b"large"
        assert sum([1 async for _ in bucket.list("seals/")]) == 1

    play(moto, tmp_path, tell)


async def hear_job(worker: Any) -> dict[str, Any]:
    told: dict[str, Any] = await worker.hear()
    assert told["code"] == 5, told
    return told


async def ask_upload(worker: Any, job: str) -> dict[str, Any]:
    await worker.say({"code": 9, "job": job})
    told: dict[str, Any] = await worker.hear()
    assert (told["code"], told["job"]) == (9, job)
    return told


def test_a_worker_of_protocol_2_gets_and_sends_past_the_server(moto: MotoServer, tmp_path: Path) -> None:
    async def tell(site: Site, bucket: Bucket) -> None:
        job = await site.submit(LARGE)
        async with join(site, urls=True) as (worker, _):
            told = await hear_job(worker)
            payload = await fetch(told["url"])
            assert (payload, told["size"]) == (LARGE, len(LARGE))
            assert hashlib.sha256(payload).hexdigest() == told["sha256"]
            place = await ask_upload(worker, told["job"])
            await upload(place["url"], RESULT)
            await worker.say({"code": 5, "job": told["job"], "upload": place["upload"]})
            assert (await worker.hear())["accepted"]
        assert await site.read(job["key"], "result") == RESULT
        assert [found.path async for found in bucket.list("drafts/")] == []

    play(moto, tmp_path, tell)


def test_what_is_small_comes_over_the_websocket_all_the_same(moto: MotoServer, tmp_path: Path) -> None:
    async def tell(site: Site, bucket: Bucket) -> None:
        await site.submit(b"small")
        async with join(site, urls=True) as (worker, _):
            told = await hear_job(worker)
            assert "url" not in told
            assert await worker.socket.recv() == b"small"
            assert (await give(worker, told["job"], b"done"))["accepted"]

    play(moto, tmp_path, tell)


def test_a_result_that_was_not_uploaded_is_refused_and_the_job_tried_again(moto: MotoServer, tmp_path: Path) -> None:
    async def tell(site: Site, bucket: Bucket) -> None:
        job = await site.submit(b"x")
        async with join(site, urls=True) as (worker, _):
            told = await hear_job(worker)
            await worker.socket.recv()
            place = await ask_upload(worker, told["job"])
            await worker.say({"code": 5, "job": told["job"], "upload": place["upload"]})
            receipt = await worker.hear()
            assert (receipt["accepted"], "nothing was uploaded" in receipt["reason"]) == (False, True)
            again = await hear_job(worker)
            assert again["id"] == job["id"]
            assert again["job"] != told["job"]
        assert (await site.show(job["key"]))["tries"] == 1

    play(moto, tmp_path, tell)


def test_a_worker_without_a_websocket_gets_and_sends_past_the_server(moto: MotoServer, tmp_path: Path) -> None:
    async def tell(site: Site, bucket: Bucket) -> None:
        job = await site.submit(LARGE)
        taken = await poll(site, urls="true")
        assert (taken.status_code, taken.content) == (200, b"")
        payload = await fetch(taken.headers["x-job-url"])
        assert (hashlib.sha256(payload).hexdigest(), len(payload)) == (
            taken.headers["x-job-sha256"],
            int(taken.headers["x-job-size"]),
        )
        place = (await say(site, taken, "upload")).json()
        await upload(place["url"], RESULT)
        lease = taken.headers["x-job-lease"]
        reply = await site.client.put(f"/api/work/{lease}", params={"upload": place["upload"]})
        assert reply.status_code == 204, reply.text
        assert await site.read(job["key"], "result") == RESULT

    play(moto, tmp_path, tell)


@pytest.mark.parametrize("name", ["x", "../../format", "0" * 128])
def test_an_upload_that_is_none_is_refused_and_the_job_stays_with_its_worker(
    moto: MotoServer, tmp_path: Path, name: str
) -> None:
    async def tell(site: Site, bucket: Bucket) -> None:
        job = await site.submit(b"x")
        taken = await poll(site, urls="true")
        reply = await site.client.put(f"/api/work/{taken.headers['x-job-lease']}", params={"upload": name})
        assert reply.status_code in (400, 404), reply.text
        assert (await site.show(job["key"]))["status"] == "running"
        assert (await answer(site, taken, b"done")).status_code == 204

    play(moto, tmp_path, tell)


@story
async def test_where_the_storage_has_no_addresses_everything_comes_as_ever(site: Site) -> None:
    await site.submit(LARGE)
    async with join(site, urls=True) as (worker, _):
        told = await hear_job(worker)
        assert "url" not in told
        assert await worker.socket.recv() == LARGE
        place = await ask_upload(worker, told["job"])
        assert place == {"code": 9, "job": told["job"], "upload": None, "url": None, "seconds": None}
        assert (await give(worker, told["job"], b"done"))["accepted"]
    await site.submit(LARGE)
    taken = await poll(site, urls="true")
    assert taken.content == LARGE
    assert (await say(site, taken, "upload")).json() == {"upload": None, "url": None, "seconds": None}


def test_a_payload_that_was_changed_in_the_bucket_is_noticed(moto: MotoServer, tmp_path: Path) -> None:
    async def tell(site: Site, bucket: Bucket) -> None:
        await site.submit(LARGE, key="k")
        async for found in bucket.list("content/"):
            await bucket.put(found.path, b"L" + LARGE[1:])
        assert (await site.client.get("/api/jobs/k/payload")).json()["code"] == "blob_corrupt"
        async with site.join() as worker:
            assert (await worker.end())[0] == 1011
        await soon(lambda: is_failed(site))
        assert "damaged" in (await site.show("k"))["reason"]

    play(moto, tmp_path, tell)


async def is_failed(site: Site) -> bool:
    return bool((await site.show("k"))["status"] == "failed")


def test_while_the_service_is_away_a_job_is_refused_and_those_there_are_wait(tmp_path: Path) -> None:
    async def run(moto: MotoServer) -> None:
        async with serve_bucket(moto.make_bucket(), tmp_path) as site:
            await site.submit(LARGE, key="k")
            moto.stop()
            reply = await site.post(LARGE + b"!", priority="batch")
            assert (reply.status_code, reply.json()["code"]) == (503, "store_unavailable")
            async with site.join() as worker:
                assert (await worker.end())[0] == 1011
            await soon(lambda: is_pending(site))
            assert ((await site.show("k"))["tries"], (await site.show("k"))["crashes"]) == (0, 0)

    moto = MotoServer()
    moto.start()
    try:
        asyncio.run(run(moto))
    finally:
        moto.stop()


async def is_pending(site: Site) -> bool:
    return bool((await site.show("k"))["status"] == "pending")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [({"blobs": "s3://"}, "names no bucket"), ({"s3_secret": ""}, "set together")],
)
def test_settings_of_a_bucket_that_make_no_sense_are_named(
    moto: MotoServer, tmp_path: Path, wrong: dict[str, str], why: str
) -> None:
    import msgspec

    async def run() -> None:
        settings = msgspec.structs.replace(make_settings(moto.make_bucket(), tmp_path), **wrong)
        with pytest.raises(BadInput, match=why):
            async with open_parts(settings, SystemClock(), SystemEntropy()):
                pass

    asyncio.run(run())
