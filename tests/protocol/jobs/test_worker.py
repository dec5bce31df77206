"""A worker and the server: each sentence of the protocol about what they say to each other."""

import asyncio
import json
import time

import pytest

from tests.protocol.jobs.harness import BUSY, READY, Site, Worker, serve, soon, story, story_with

GREETING = {"code": 0, "name": "machine name", "id": "unique-machine-id"}


async def has_state(site: Site, state: str) -> bool:
    return any(worker["state"] == state for worker in await site.workers())


@story
async def test_workers_connect_to_the_worker_endpoint_and_request_a_websocket_connection(site: Site) -> None:
    assert "websocket" in await site.refuse(400, "GET", "/api/worker")
    async with site.join():
        await soon(lambda: has_state(site, "ready"))


@story
async def test_any_binary_message_from_the_server_is_a_job_payload(site: Site) -> None:
    job = await site.submit(bytes(range(256)) * 4)
    async with site.join() as worker:
        assert await worker.take() == bytes(range(256)) * 4
        assert (await site.show(job["key"]))["status"] == "running"


@story
async def test_any_binary_message_from_the_worker_is_the_result_of_the_last_job_it_was_sent(site: Site) -> None:
    jobs = [await site.submit(f"{number}".encode()) for number in range(5)]
    async with site.join() as worker:
        for _ in jobs:
            await worker.give(b"result of " + await worker.take())
        await site.show(jobs[-1]["key"], wait=10)
    for number, job in enumerate(jobs):
        assert await site.read(job["key"], "result") == f"result of {number}".encode()


@story
async def test_a_result_counts_also_if_the_worker_goes_in_the_same_moment(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        await worker.give(b"last words")
        await worker.socket.close()
    assert await site.read(job["key"], "result", wait=10) == b"last words"
    shown = await site.show(job["key"])
    assert (shown["status"], shown["crashes"]) == ("complete", 0)


@story
async def test_a_worker_that_does_not_register_is_kicked_after_500_milliseconds(site: Site) -> None:
    began = time.monotonic()
    async with site.dial() as worker:
        code, reason = await worker.end()
    assert (code, reason) == (1008, "no registration within 500 ms")
    assert time.monotonic() - began > 0.4


@story_with(worker_grace="50ms")
async def test_the_time_to_register_is_configurable(site: Site) -> None:
    async with site.dial() as worker:
        assert (await worker.end())[1] == "no registration within 50 ms"


@pytest.mark.parametrize("missing", ["name", "id"])
def test_the_registration_must_contain_a_name_and_an_identifier(missing: str) -> None:
    async def tell() -> None:
        async with serve(worker_auth="off") as site, site.dial() as worker:
            await worker.say({name: value for name, value in GREETING.items() if name != missing})
            code, reason = await worker.end()
            assert code == 1008
            assert missing in reason

    asyncio.run(tell())


@story
async def test_the_token_is_a_secret_which_authenticates_the_worker(site: Site) -> None:
    async with site.dial() as worker:
        await worker.say({**GREETING, "token": site.secret})
        assert await worker.hear() == {"code": 2}


@pytest.mark.parametrize("token", ["wrong", "", None, 7, "x" * 10_000])
def test_without_the_token_the_connection_is_closed_after_the_grace_period(token: object) -> None:
    async def tell() -> None:
        async with serve(worker_grace="300ms") as site:
            began = time.monotonic()
            async with site.dial() as worker:
                await worker.say({**GREETING, "token": token})
                code, reason = await worker.end()
            assert code == 1008
            assert "token" in reason
            assert time.monotonic() - began > 0.25

    asyncio.run(tell())


@story
async def test_a_worker_that_was_refused_gets_nothing_whatever_it_says(site: Site) -> None:
    await site.submit(b"secret")
    async with site.dial() as worker:
        await worker.say({**GREETING, "token": "wrong"})
        for message in (READY, {**GREETING, "token": site.secret}, {"code": 3, "percent": 1}):
            await worker.say(message)
        await worker.give(b"result")
        assert (await worker.end())[0] == 1008
    assert await site.workers() == []
    assert (await site.get("/api/jobs"))["counts"]["pending"] == 1


@pytest.mark.parametrize("token", [{}, {"token": "whatever"}, {"token": None}])
def test_if_authentication_is_disabled_the_contents_of_the_token_are_irrelevant(token: dict[str, object]) -> None:
    async def tell() -> None:
        async with serve(worker_auth="off") as site, site.dial() as worker:
            await worker.say({**GREETING, **token})
            assert await worker.hear() == {"code": 2}
            assert "token" in await site.refuse(401, "GET", "/api/jobs", headers={"authorization": ""})

    asyncio.run(tell())


@story
async def test_if_the_authentication_is_successful_the_server_queries_the_worker_for_its_status(site: Site) -> None:
    async with site.dial() as worker:
        await worker.say({**GREETING, "token": site.secret})
        async with asyncio.timeout(60):
            assert await worker.socket.recv() == '{"code":2}'


@story
async def test_no_job_goes_to_a_worker_that_has_not_said_ready(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.dial() as silent, site.dial() as busy:
        for number, worker in enumerate((silent, busy)):
            await worker.say({**GREETING, "id": f"w{number}", "token": site.secret})
            assert await worker.hear() == {"code": 2}
        await busy.say(BUSY)
        await soon(lambda: has_state(site, "busy"))
        assert (await site.show(job["key"], wait=0.3))["status"] == "pending"
        await busy.say(READY)
        assert await busy.take() == b"x"


@story
async def test_a_worker_that_says_busy_again_gets_no_job(site: Site) -> None:
    async with site.join() as worker:
        await soon(lambda: has_state(site, "ready"))
        await worker.say(BUSY)
        await soon(lambda: has_state(site, "busy"))
        job = await site.submit(b"x")
        assert (await site.show(job["key"], wait=0.3))["status"] == "pending"


@story_with(worker_silence="1500ms")
async def test_whenever_it_receives_a_status_request_the_worker_responds_and_keeps_its_job(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        for _ in range(3):
            assert await worker.hear() == {"code": 2}
            await worker.say(BUSY)
        await worker.give(b"done")
        assert (await site.show(job["key"], wait=10))["status"] == "complete"


@pytest.mark.parametrize(
    ("percent", "info"), [(None, "reticulating splines"), (0.0, None), (100, None), (41.5, "both")]
)
def test_progress_has_a_percentage_or_an_informational_text_or_both(percent: float | None, info: str | None) -> None:
    async def tell() -> None:
        async with serve() as site:
            job = await site.submit(b"x")
            async with site.join() as worker:
                await worker.take()
                await worker.say({"code": 3, "percent": percent, "info": info})

                async def told() -> bool:
                    shown = await site.show(job["key"])
                    return (shown["percent"], shown["info"]) == (percent, info)

                await soon(told)

    asyncio.run(tell())


@pytest.mark.parametrize("wrong", [{"percent": 100.5}, {"percent": -1}, {"percent": "5"}, {"info": 5}, {}])
def test_progress_out_of_range_or_with_both_fields_null_is_refused(wrong: dict[str, object]) -> None:
    async def tell() -> None:
        async with serve() as site:
            await site.submit(b"x")
            async with site.join() as worker:
                await worker.take()
                await worker.say({"code": 3, "percent": None, "info": None, **wrong})
                code, reason = await worker.end()
                assert code == 1008
                assert "code 3" in reason

    asyncio.run(tell())


@story
async def test_the_worker_is_not_obligated_to_send_progress_updates(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        await worker.give(b"")
        shown = await site.show(job["key"], wait=10)
    assert (shown["status"], shown["percent"]) == ("complete", None)
    assert await site.read(job["key"], "result") == b""


@story_with(job_tries="1")
async def test_if_an_error_occurs_the_worker_tells_that_the_job_failed_with_info_and_logs(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        await worker.say({"code": 4, "logs": "line 1\nline 2", "info": "no splines"})
        shown = await site.show(job["key"], wait=10)
    assert (shown["status"], shown["reason"]) == ("failed", "no splines")
    assert await site.read(job["key"], "logs") == b"line 1\nline 2"
    assert "no splines" in await site.refuse(409, "GET", f"/api/jobs/{job['key']}/result")


@story_with(job_tries="1")
async def test_info_and_logs_of_a_failure_are_optional(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        await worker.say({"code": 4, "logs": None, "info": None})
        assert (await site.show(job["key"], wait=10))["status"] == "failed"
    assert await site.read(job["key"], "logs") == b""


async def misbehave(site: Site, worker: Worker, message: str | bytes) -> tuple[int, str]:
    await worker.socket.send(message)
    return await worker.end()


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("hello", "JSON"),
        ("[]", "JSON"),
        ("{}", "no code"),
        ('{"code": 2}', "no code"),
        ('{"code": 9}', "no code"),
        ('{"code": true}', "no code"),
        ('{"code": "1"}', "no code"),
        ('{"code": 1}', "status"),
        ('{"code": 1, "status": 2}', "status"),
        (json.dumps({**GREETING, "token": "x"}), "registers once"),
        ('{"code": 4}', "no job is open"),
        (b"result", "no job is open"),
    ],
)
def test_what_is_not_in_the_protocol_is_closed_with_a_reason(message: str | bytes, why: str) -> None:
    async def tell() -> None:
        async with serve() as site, site.join() as worker:
            code, reason = await misbehave(site, worker, message)
            assert code == 1008
            assert why in reason

    asyncio.run(tell())


@pytest.mark.parametrize("message", [json.dumps(READY), b"result"])
def test_a_worker_registers_before_it_says_anything_else(message: str | bytes) -> None:
    async def tell() -> None:
        async with serve() as site, site.dial() as worker:
            assert "registers before" in (await misbehave(site, worker, message))[1]

    asyncio.run(tell())


@story
async def test_two_results_for_one_job_are_one_too_many(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        await worker.give(b"first")
        await worker.give(b"second")
        assert (await worker.end())[0] == 1008
    assert await site.read(job["key"], "result") == b"first"
