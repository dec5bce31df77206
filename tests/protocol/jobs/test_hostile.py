"""Workers and clients that break, freeze, flood or lie: each gets a clear end, and nothing is lost."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.protocol.jobs.harness import Site, serve, soon, story, story_in, story_with
from tests.protocol.jobs.test_second import join as join_second
from tests.protocol.jobs.test_second import take as take_second

HANDSHAKE = (
    "GET /api/worker HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{}\r\n"
)


@story_with(worker_frame="1000")
async def test_a_frame_beyond_the_limit_is_closed_with_1009_and_a_reason_that_names_it(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        await worker.give(b"y" * 1_001)
        code, reason = await worker.end()
        assert code == 1009
        assert "1000 bytes" in reason
        assert "several frames" in reason
        assert "in chunks or past the server" in reason
    assert (await site.show(job["key"]))["crashes"] == 1


@story
async def test_text_where_the_result_belongs_is_closed_with_a_reason_and_the_job_goes_back(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        await worker.socket.send("the result, as text")
        assert await worker.end() == (1008, "a text message is a JSON object with a code")
    async with site.join("other") as other:
        assert await other.take() == b"x"
        await other.give(b"right")
        assert await site.read(job["key"], "result", wait=15) == b"right"


@story
async def test_text_where_an_announced_result_belongs_is_closed_with_a_reason(site: Site) -> None:
    job = await site.submit(b"x")
    async with join_second(site) as (worker, _):
        name, _ = await take_second(worker)
        await worker.say({"code": 5, "job": name})
        await worker.say({"code": 3, "job": name, "percent": 1})
        assert await worker.end() == (1008, "a result was announced, and something else came")
    assert (await site.show(job["key"]))["status"] == "running"


@story_with(worker_frame="1000")
async def test_fragments_are_the_way_round_the_limit(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()
        await worker.socket.send([b"y" * 1_000] * 50)
        assert await site.read(job["key"], "result", wait=10) == b"y" * 50_000


@story_in
async def test_a_large_job_is_never_whole_in_memory(site: Site, folder: Path) -> None:
    size, piece = 96 << 20, os.urandom(1 << 20)
    process = psutil.Process()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size >> 20):
            yield piece

    reply = await site.client.post("/api/jobs/submit?priority=batch&key=large", content=pieces())
    assert reply.status_code == 201, reply.text
    before = process.memory_info().rss
    async with site.join() as worker:
        got = peak = 0
        async for fragment in worker.socket.recv_streaming(decode=False):
            got += len(fragment)
            peak = max(peak, process.memory_info().rss)
        assert got == size
        await worker.socket.send(pieces())
        await site.show("large", wait=20)
        peak = max(peak, process.memory_info().rss)
    async with site.client.stream("GET", "/api/jobs/large/result") as reply:
        assert int(reply.headers["content-length"]) == size
        assert sum([len(part) async for part in reply.aiter_raw()]) == size
    assert peak - before < 64 << 20


@story
async def test_a_worker_that_breaks_off_in_the_middle_of_a_result_gives_its_job_back(site: Site) -> None:
    job = await site.submit(b"x")
    async with site.join() as worker:
        await worker.take()

        async def half() -> AsyncIterator[bytes]:
            yield b"half"
            worker.socket.transport.abort()
            yield b"never"

        with pytest.raises(Exception, match=r".*"):
            await worker.socket.send(half())
    await soon(lambda: is_pending(site, job["key"]))
    async with site.join("other") as other:
        assert await other.take() == b"x"


async def is_pending(site: Site, key: str) -> bool:
    return bool((await site.show(key))["status"] == "pending")


async def dial_bare(site: Site, more: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = int(site.server.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HANDSHAKE.format(more).encode())
    return reader, writer


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x81\x02{}", 1002),
        (b"\xc1\x82\0\0\0\0{}", 1002),
        (b"\x83\x80\0\0\0\0", 1002),
        (b"\x80\x80\0\0\0\0", 1002),
        (b"\x09\x80\0\0\0\0", 1002),
        (b"\x89\xfe\x00\x7e\0\0\0\0", 1002),
        (b"\x01\x80\0\0\0\0\x81\x80\0\0\0\0", 1002),
        (b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0", 1009),
        (b"\x81\x81\0\0\0\0\xff", 1007),
    ],
)
def test_frames_that_are_none_are_closed_with_the_code_for_it(frame: bytes, code: int) -> None:
    async def tell() -> None:
        async with serve() as site:
            reader, writer = await dial_bare(site)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(frame)
            async with asyncio.timeout(60):
                head = await reader.readexactly(2)
                while head[0] != 0x88:
                    await reader.readexactly(head[1])
                    head = await reader.readexactly(2)
                assert int.from_bytes((await reader.readexactly(head[1]))[:2], "big") == code
            writer.close()

    asyncio.run(tell())


@pytest.mark.parametrize(
    ("more", "status"),
    [("Origin: http://evil.example\r\n", b"403"), ("Origin: http://localhost:1\r\n", b"101"), ("", b"101")],
)
def test_a_page_of_another_site_opens_no_websocket(more: str, status: bytes) -> None:
    async def tell() -> None:
        async with serve() as site:
            reader, writer = await dial_bare(site, more)
            assert (await reader.readline()).split()[1] == status
            writer.close()

    asyncio.run(tell())


@story
async def test_a_thousand_frames_of_garbage_leave_the_server_as_it_was(site: Site) -> None:
    for _ in range(50):
        _, writer = await dial_bare(site)
        writer.write(os.urandom(2_000))
        writer.close()
    job = await site.submit(b"x")
    async with site.join() as worker:
        assert await worker.take() == b"x"
        await worker.give(b"y")
        assert await site.read(job["key"], "result", wait=10) == b"y"
    assert len([worker for worker in await site.workers() if worker["state"] != "gone"]) <= 1


@story_with(worker_silence="1s")
async def test_a_worker_that_does_not_read_costs_a_bounded_buffer_and_its_job_goes_back(site: Site) -> None:
    job = await site.submit(b"x" * 200_000)
    async with site.join("frozen") as worker:
        worker.socket.transport.pause_reading()
        await soon(lambda: has_crashed(site, job["key"]))
        async with site.join("good") as good:
            assert len(await good.take()) == 200_000


async def has_crashed(site: Site, key: str) -> bool:
    return bool((await site.show(key))["crashes"] == 1)


@story
async def test_an_upload_that_breaks_off_leaves_no_job(site: Site) -> None:
    port = int(site.server.url.rpartition(":")[2])
    secret = site.client.headers["authorization"]
    head = f"POST /api/jobs/submit?priority=batch HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {secret}\r\n"
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(f"{head}Content-Length: 5000000\r\n\r\n".encode() + b"x" * 400_000)
    assert (await site.get("/api/jobs"))["counts"]["pending"] == 0
