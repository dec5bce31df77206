"""Protocol 2: several jobs at a time, each named, and computations that outlast a connection."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from ganger.core.ids import NodeId, TaskId
from ganger.core.state import Status
from tests.protocol.jobs.harness import READY, Site, Worker, serve, soon, story, story_in, story_with

SECOND = Subprotocol("ganger.jobs.2")


@asynccontextmanager
async def dial(site: Site, path: str = "/api/worker") -> AsyncIterator[Worker]:
    url = f"{site.server.url.replace('http', 'ws', 1)}{path}"
    async with connect(url, max_size=None, compression=None, close_timeout=1, subprotocols=[SECOND]) as socket:
        assert socket.subprotocol == SECOND
        yield Worker(socket)


@asynccontextmanager
async def join(site: Site, seconds: float = 10, **said: Any) -> AsyncIterator[tuple[Worker, str]]:
    """A worker that is ready, and its session. The server tells it for how long its jobs wait for it."""
    async with dial(site) as worker:
        await worker.say({"code": 0, "name": "w", "id": "w", "token": site.secret, **said})
        welcome = await worker.hear()
        assert (welcome["code"], welcome["seconds"]) == (6, seconds)
        assert await worker.hear() == {"code": 2}
        await worker.say(READY)
        yield worker, welcome["session"]


async def take(worker: Worker) -> tuple[str, bytes]:
    """The name and the payload of the next job."""
    told = await worker.hear()
    while told["code"] == 2:
        await worker.say(READY)
        told = await worker.hear()
    assert told["code"] == 5, told
    async with asyncio.timeout(60):
        payload = await worker.socket.recv()
    assert isinstance(payload, bytes)
    assert told["size"] == len(payload)
    return told["job"], payload


async def give(worker: Worker, job: str, *chunks: bytes) -> dict[str, Any]:
    """The receipt of a result."""
    await worker.say({"code": 5, "job": job, "chunks": len(chunks)})
    for chunk in chunks:
        await worker.give(chunk)
    receipt: dict[str, Any] = await worker.hear()
    assert (receipt["code"], receipt["job"]) == (7, job)
    return receipt


@story
async def test_a_worker_has_several_jobs_at_a_time_and_answers_in_any_order(site: Site) -> None:
    jobs = {key: await site.submit(key.encode(), key=key) for key in ("a", "b", "c")}
    async with join(site, slots=2) as (worker, _):
        first, second = await take(worker), await take(worker)
        assert [first[1], second[1]] == [b"a", b"b"]
        assert (await site.show("c", wait=0.2))["status"] == "pending"
        assert (await give(worker, second[0], b"B"))["accepted"]
        third = await take(worker)
        assert third[1] == b"c"
        assert (await give(worker, first[0], b"A"))["accepted"]
        assert (await give(worker, third[0], b"C"))["accepted"]
    for key in jobs:
        assert await site.read(key, "result") == key.upper().encode()


@story_in
async def test_a_result_comes_in_chunks(site: Site, folder: Path) -> None:
    await site.submit(b"x" * 2_000_000, key="k")
    async with join(site) as (worker, _):
        job, payload = await take(worker)
        assert len(payload) == 2_000_000
        assert (await give(worker, job, b"a" * 400_000, b"", b"b" * 400_000))["accepted"]
    assert await site.read("k", "result") == b"a" * 400_000 + b"b" * 400_000


@story
async def test_progress_and_failures_name_their_job(site: Site) -> None:
    await site.submit(b"x", key="k")
    async with join(site) as (worker, _):
        job, _ = await take(worker)
        await worker.say({"code": 3, "job": job, "percent": 5, "info": "on"})
        await soon(lambda: has_info(site, "on"))
        await worker.say({"code": 4, "job": job, "info": "broken", "logs": "why"})
        receipt = await worker.hear()
        assert (receipt["code"], receipt["accepted"]) == (7, True)
        assert await site.read("k", "logs") == b"why"
        assert (await take(worker))[0] != job


async def has_info(site: Site, info: str) -> bool:
    return bool((await site.show("k"))["info"] == info)


@story
async def test_after_a_lost_connection_the_computation_goes_on(site: Site) -> None:
    await site.submit(b"x", key="k")
    async with join(site) as (worker, session):
        job, _ = await take(worker)
        worker.socket.transport.abort()
    await soon(lambda: is_gone(site))
    assert (await site.show("k"))["status"] == "running"
    async with join(site, session=session, jobs=[job]) as (worker, again):
        assert again == session
        assert (await give(worker, job, b"late"))["accepted"]
    shown = await site.show("k")
    assert (shown["status"], shown["tries"], shown["crashes"]) == ("complete", 1, 0)
    assert await site.read("k", "result") == b"late"


async def is_gone(site: Site) -> bool:
    return all(worker["state"] == "gone" for worker in await site.workers())


@story_with(worker_return="1s")
async def test_the_jobs_of_a_worker_that_was_killed_go_to_another_soon_and_count_a_crash(site: Site) -> None:
    await site.submit(b"x", key="k")
    async with join(site, seconds=1) as (worker, _):
        await take(worker)
        await soon(lambda: is_running(site))
        worker.socket.transport.abort()
    async with asyncio.timeout(30), site.join("other") as other:
        assert await other.take() == b"x"
        assert (await site.show("k"))["crashes"] == 1


async def is_running(site: Site) -> bool:
    return any(task is not None and task.status == Status.RUNNING for task in await site.engine.tasks([TaskId(1)]))


@story
async def test_a_worker_that_is_back_has_all_its_time_again(site: Site) -> None:
    async with join(site) as (worker, session):
        at_first = await read_end(site)
        worker.socket.transport.abort()
    await soon(lambda: is_gone(site))
    await soon(lambda: is_shorter(site, at_first))
    async with join(site, session=session):
        assert await read_end(site) >= at_first


async def read_end(site: Site) -> int:
    """When the lease of the one worker ends."""
    (node,) = await site.engine.nodes.all()
    return node.until


async def is_shorter(site: Site, end: int) -> bool:
    return await read_end(site) < end - 30_000


@story
async def test_the_late_end_of_an_old_connection_takes_no_time_from_the_new_one(site: Site) -> None:
    async with join(site) as (old, session), join(site, session=session):
        at_first = await read_end(site)
        old.socket.transport.abort()
        await soon(lambda: has_gone(site, 1))
        assert await read_end(site) >= at_first


async def has_gone(site: Site, number: int) -> bool:
    return len([worker for worker in await site.workers() if worker["state"] != "gone"]) == number


@story
async def test_a_late_result_is_refused_if_the_lease_holds_no_more(site: Site) -> None:
    await site.submit(b"x", key="k")
    async with join(site) as (worker, session):
        job, _ = await take(worker)
        worker.socket.transport.abort()
    node, _, secret = session.partition(".")
    await site.engine.nodes.leave(NodeId(int(node)), secret)
    async with site.join("other") as other:
        assert await other.take() == b"x"
        async with join(site, session=session, jobs=[job]) as (worker, again):
            assert again != session
            receipt = await give(worker, job, b"late")
            assert not receipt["accepted"]
            assert receipt["reason"]
        await other.give(b"right")
        assert await site.read("k", "result", wait=10) == b"right"


@story
async def test_a_job_that_was_lost_on_its_way_goes_back(site: Site) -> None:
    await site.submit(b"x", key="k")
    async with join(site) as (worker, session):
        lost, _ = await take(worker)
        worker.socket.transport.abort()
    async with join(site, session=session, jobs=[]) as (worker, again):
        job, payload = await take(worker)
        assert (again, payload) == (session, b"x")
        assert job != lost


@story
async def test_a_worker_that_closes_in_order_gives_its_jobs_back_at_once(site: Site) -> None:
    await site.submit(b"x", key="k")
    async with join(site) as (worker, _):
        await take(worker)
    await soon(lambda: is_pending(site))
    assert (await site.show("k"))["crashes"] == 0


async def is_pending(site: Site) -> bool:
    return bool((await site.show("k"))["status"] == "pending")


@story
async def test_a_job_that_is_killed_is_cancelled_at_the_worker_which_stays(site: Site) -> None:
    await site.submit(b"x", key="k")
    async with join(site) as (worker, _):
        job, _ = await take(worker)
        deleting = asyncio.ensure_future(site.client.delete("/api/jobs/k"))
        assert await worker.hear() == {"code": 8, "job": job}
        assert (await deleting).status_code == 204
        await site.submit(b"y")
        assert (await take(worker))[1] == b"y"


def test_a_worker_goes_on_with_the_next_server(tmp_path: Path) -> None:
    async def tell() -> None:
        async with serve(tmp_path) as site:
            await site.submit(b"x", key="k")
            async with join(site) as (worker, session):
                job, _ = await take(worker)
                ending = asyncio.ensure_future(worker.end())
                await site.server.service.stop()
                assert (await ending)[0] == 1001
        async with serve(tmp_path) as site:
            assert (await site.show("k"))["status"] == "running"
            async with join(site, session=session, jobs=[job]) as (worker, again):
                assert again == session
                assert (await give(worker, job, b"late"))["accepted"]

    asyncio.run(tell())


@story_with(worker_silence="1s")
async def test_a_silent_worker_is_asked_and_then_given_up(site: Site) -> None:
    async with join(site) as (worker, _):
        assert [await worker.hear(), await worker.hear()] == [{"code": 2}] * 2
        assert "status requests" in (await worker.end())[1]


@story_with(worker_silence="1s")
async def test_the_jobs_of_a_worker_that_does_not_answer_go_to_another_and_count_a_crash(site: Site) -> None:
    await site.submit(b"x", key="k")
    async with join(site) as (worker, _):
        await take(worker)
        assert "status requests" in (await worker.end())[1]
        async with site.join("other") as other:
            assert await other.take() == b"x"
            assert (await site.show("k"))["crashes"] == 1
    assert [one["failed"] for one in await site.workers() if one["id"] == "w"] == [1]


@story
async def test_who_does_not_register_or_has_no_token_is_sent_away(site: Site) -> None:
    async with dial(site) as worker:
        assert (await worker.end())[1] == "no registration within 500 ms"
    async with dial(site) as worker:
        await worker.say({"code": 0, "name": "w", "id": "w", "token": "wrong"})
        assert "token" in (await worker.end())[1]


@pytest.mark.parametrize(
    "message",
    [
        {"code": 9},
        {"code": 3, "percent": 5},
        {"code": 3, "job": "x", "percent": 5},
        {"code": 4, "job": "0.0"},
        {"code": 5, "job": "1.1", "chunks": 0},
        {"code": 0, "name": "w", "id": "w"},
        b"result",
        "text",
    ],
)
def test_what_is_not_in_the_protocol_is_closed_with_a_reason(message: object) -> None:
    async def tell() -> None:
        async with serve() as site, join(site) as (worker, _):
            await (worker.socket.send(message) if isinstance(message, str | bytes) else worker.say(message))
            code, reason = await worker.end()
            assert code == 1008
            assert reason

    asyncio.run(tell())


@story
async def test_a_session_that_is_not_ones_own_is_no_way_in(site: Site) -> None:
    async with join(site) as (worker, session):
        forged = f"{session.partition('.')[0]}.{'0' * 32}"
        async with join(site, id="thief", session=forged) as (_, other):
            assert other.partition(".")[0] != session.partition(".")[0]
        await worker.socket.send(json.dumps(READY))
