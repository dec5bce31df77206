"""Jobs come in: each sentence of the protocol about uploads, keys and batches."""

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.protocol.jobs.harness import Site, serve, story, story_in, story_with

GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
LARGE = bytes(range(256)) * 16_384


@story
async def test_jobs_are_binary_payloads_delivered_as_a_multipart_form_file_upload(site: Site) -> None:
    job = await site.submit(bytes(range(256)))
    assert await site.read(job["key"], "payload") == bytes(range(256))


def list_blobs(folder: Path) -> list[bytes]:
    """What lies in the storage, without the seals behind it."""
    files = [file.read_bytes() for file in folder.glob("*-blobs/**/*") if file.is_file()]
    return [content[: len(LARGE)] for content in files if len(content) > len(LARGE)]


@story_in
async def test_the_payload_is_sent_to_the_storage_backend_and_metadata_is_generated(site: Site, folder: Path) -> None:
    job = await site.submit(LARGE)
    assert job["size"] == len(LARGE)
    assert list_blobs(folder) == [LARGE]
    assert await site.read(job["key"], "payload") == LARGE


@story
async def test_the_form_must_contain_the_payload(site: Site) -> None:
    reply = await site.client.post("/api/jobs/submit", data={"priority": "batch"}, files={"key": (None, "k")})
    assert (reply.status_code, reply.json()["fields"]) == (400, {"field": "payload"})


@story
async def test_the_form_must_contain_a_priority_string(site: Site) -> None:
    reply = await site.post(b"x")
    assert (reply.status_code, reply.json()["fields"]) == (400, {"field": "priority"})


@pytest.mark.parametrize("priority", ["immediate", "batch"])
def test_the_priority_is_either_immediate_or_batch(priority: str) -> None:
    async def tell() -> None:
        async with serve() as site:
            assert (await site.submit(b"x", priority))["priority"] == priority

    asyncio.run(tell())


@pytest.mark.parametrize("priority", ["", "IMMEDIATE", "urgent", "0", "batch "])
def test_any_other_priority_is_refused_with_a_reason(priority: str) -> None:
    async def tell() -> None:
        async with serve() as site:
            reply = await site.post(b"x", priority=priority)
            assert reply.status_code == 400
            assert "immediate or batch" in reply.json()["detail"]

    asyncio.run(tell())


@story
async def test_optionally_a_string_description_of_up_to_128_characters_can_be_supplied(site: Site) -> None:
    assert (await site.submit(b"x"))["description"] is None
    assert (await site.submit(b"x", description="ü" * 128))["description"] == "ü" * 128
    reply = await site.post(b"x", priority="batch", description="x" * 129)
    assert (reply.status_code, reply.json()["fields"]) == (400, {"field": "description"})


@story
async def test_internally_jobs_are_referenced_by_a_guid_generated_at_the_time_of_submission(site: Site) -> None:
    one, two = await site.submit(b"1"), await site.submit(b"2", key="two")
    assert GUID.fullmatch(one["id"])
    assert GUID.fullmatch(two["id"])
    assert one["id"] != two["id"]
    assert (await site.show(two["id"]))["key"] == "two"


@story
async def test_to_clients_the_string_key_can_be_substituted_for_the_guid(site: Site) -> None:
    job = await site.submit(b"x", key="frame 7/9?")
    assert (await site.show("frame%207%2F9%3F"))["id"] == job["id"]
    assert await site.read("frame%207%2F9%3F", "payload") == b"x"


@story
async def test_if_the_key_is_not_unique_a_400_bad_request_is_returned(site: Site) -> None:
    await site.submit(b"1", key="same")
    reply = await site.post(b"2", priority="batch", key="same")
    assert reply.status_code == 400
    assert "'same'" in reply.json()["detail"]
    assert len((await site.get("/api/jobs"))["jobs"]) == 1


@story
async def test_if_the_key_is_not_supplied_the_guid_serves_in_its_place(site: Site) -> None:
    job = await site.submit(b"x")
    assert job["key"] == job["id"]
    assert (await site.show(job["key"]))["id"] == job["id"]


@story
async def test_a_key_that_has_the_form_of_a_guid_or_is_a_word_of_the_routes_is_refused(site: Site) -> None:
    guid = "01234567-89ab-cdef-0123-456789abcdef"
    for key in (guid, guid.upper(), guid.replace("-", ""), f"{{{guid}}}", "submit", "Batches", "result", ""):
        reply = await site.post(b"x", priority="batch", key=key)
        assert reply.status_code == 400, key
    assert (await site.get("/api/jobs"))["jobs"] == []


@story_with(job_batch="2")
async def test_jobs_are_assigned_to_a_batch_of_configurable_size_with_an_integer_id(site: Site) -> None:
    batches = [(await site.submit(b"x"))["batch"] for _ in range(5)]
    assert batches == [1, 1, 2, 2, 3]


@story_with(job_batch="2", job_types="a, b")
async def test_batches_only_contain_jobs_of_a_single_type_and_are_created_sequentially(site: Site) -> None:
    made = [await site.submit(b"x", to=f"/api/jobs/submit/{kind}") for kind in "abaab"]
    assert [job["batch"] for job in made] == [1, 2, 1, 3, 2]
    for number in (1, 2, 3):
        batch = await site.get(f"/api/jobs/batches/{number}")
        assert {job["type"] for job in batch["jobs"]} == {batch["type"]}


@story_with(job_batch="2")
async def test_when_the_batch_has_reached_its_size_queries_by_its_id_are_stable(site: Site) -> None:
    await site.submit(b"1")
    assert not (await site.get("/api/jobs/batches/1"))["stable"]
    await site.submit(b"2")
    full = await site.get("/api/jobs/batches/1")
    assert full["stable"]
    await site.submit(b"3")
    assert await site.get("/api/jobs/batches/1") == full
    assert "no batch 9" in await site.refuse(404, "GET", "/api/jobs/batches/9")


@story
async def test_the_metadata_has_guid_batch_key_priority_and_the_current_utc_time_and_is_pending(site: Site) -> None:
    before = datetime.now(UTC)
    job = await site.submit(b"x", "immediate", key="k")
    submitted = datetime.fromisoformat(job["submitted"])
    assert abs((submitted - before).total_seconds()) < 5
    assert submitted.utcoffset() == UTC.utcoffset(None)
    assert (job["key"], job["priority"], job["batch"], job["status"]) == ("k", "immediate", 1, "pending")
    assert GUID.fullmatch(job["id"])


@story_in
async def test_a_client_without_multipart_sends_the_payload_as_the_body(site: Site, folder: Path) -> None:
    for body in (b"small", LARGE):
        query = {"priority": "immediate", "key": f"raw {len(body)}", "description": "d"}
        reply = await site.client.post("/api/jobs/submit", content=body, params=query)
        assert reply.status_code == 201, reply.text
        assert (reply.json()["priority"], reply.json()["description"]) == ("immediate", "d")
        assert await site.read(reply.json()["id"], "payload") == body
    reply = await site.client.post("/api/jobs/submit", content=b"x")
    assert (reply.status_code, reply.json()["fields"]) == (400, {"field": "priority"})


@story
async def test_a_part_that_nobody_knows_or_that_comes_twice_is_refused(site: Site) -> None:
    reply = await site.post(b"x", priority="batch", prio="1")
    assert "'prio'" in reply.json()["detail"]
    files = [("payload", ("a", b"1")), ("payload", ("b", b"2"))]
    reply = await site.client.post("/api/jobs/submit", data={"priority": "batch"}, files=files)
    assert (reply.status_code, reply.json()["detail"]) == (400, "payload is given twice")


@story
async def test_a_form_that_breaks_off_makes_no_job(site: Site) -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="payload"; filename="f"\r\n\r\nhalf of i'
    kind = {"content-type": "multipart/form-data; boundary=b"}
    assert "last line" in await site.refuse(400, "POST", "/api/jobs/submit", content=body, headers=kind)
    assert (await site.get("/api/jobs"))["jobs"] == []


@story_in
async def test_the_payload_may_come_before_the_other_fields(site: Site, folder: Path) -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="payload"; filename="f"\r\n\r\n'
    tail = b'\r\n--b\r\nContent-Disposition: form-data; name="priority"\r\n\r\nbatch\r\n--b--\r\n'
    kind = {"content-type": 'multipart/form-data; boundary="b"'}
    reply = await site.client.post("/api/jobs/submit", content=head + LARGE + tail, headers=kind)
    assert reply.status_code == 201, reply.text
    assert await site.read(reply.json()["key"], "payload") == LARGE


@story
async def test_the_key_of_the_api_may_come_in_a_header_of_its_own(site: Site) -> None:
    secret = site.client.headers.pop("authorization").removeprefix("Bearer ")
    assert "token" in await site.refuse(401, "GET", "/api/jobs")
    assert "token" in await site.refuse(401, "GET", "/api/jobs", headers={"X-API-KEY": "wrong"})
    assert (await site.client.get("/api/jobs", headers={"X-API-KEY": secret})).status_code == 200


@story
async def test_workers_and_the_job_api_have_tokens_apart(site: Site) -> None:
    worker = {"authorization": f"Bearer {site.secret}"}
    poster = {"authorization": f"Bearer {site.server.tokens.add('poster', ['submit:jobs']).token}"}
    assert "'submit'" in await site.refuse(403, "POST", "/api/jobs/submit", headers=worker)
    assert "'read'" in await site.refuse(403, "GET", "/api/jobs", headers=poster)
    reply = await site.client.post("/api/jobs/submit?priority=batch", content=b"x", headers=poster)
    assert reply.status_code == 201
