"""The server is killed while workers work: every job ends exactly once, and nothing is lost."""

import asyncio
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from tests.protocol.jobs.harness import READY, soon

JOBS, WORKERS = 60, 6
PATIENCE = 60.0
LARGE = 300_000


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def start(folder: Path, port: int) -> asyncio.subprocess.Process:
    words = ["-c", "from ganger.cli.main import main; main()", "server", "--listen", f"127.0.0.1:{port}"]
    server = await asyncio.create_subprocess_exec(
        sys.executable, *words, "--store", f"sqlite:{folder / 'tasks.db'}", stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    while b"serving" not in await server.stderr.readline():
        pass
    return server


class Run(NamedTuple):
    """What the workers did, and what they wait for: they have jobs in their hands when the server is killed."""

    done: list[bytes]
    killed: asyncio.Event
    ended: asyncio.Event


async def work(url: str, name: str, token: str, run: Run) -> None:
    """Work over any number of connections."""
    while not run.ended.is_set():
        with suppress(ConnectionClosed, InvalidHandshake, OSError, EOFError):
            async with connect(url, max_size=None, compression=None) as line:
                await line.send(json.dumps({"code": 0, "name": name, "id": name, "token": token}))
                await serve_jobs(line, run)
        await asyncio.sleep(0.05)


async def serve_jobs(line: Any, run: Run) -> None:
    async for message in line:
        if isinstance(message, str):
            await line.send(json.dumps(READY))
            continue
        if len(run.done) >= JOBS // 4:
            await run.killed.wait()
        run.done.append(message[:20])
        await line.send(b"result of " + message)


async def count(client: httpx2.AsyncClient, status: str) -> int:
    with suppress(httpx2.TransportError):
        reply = await client.get("/api/jobs?limit=1")
        if reply.status_code == 200:
            found: int = reply.json()["counts"][status]
            return found
    return -1


async def submit_all(client: httpx2.AsyncClient) -> None:
    for number in range(JOBS):
        body = f"{number} ".encode() + b"x" * (LARGE if number % 10 == 0 else 0)
        reply = await client.post(f"/api/jobs/submit?priority=batch&key=job{number}", content=body)
        assert reply.status_code == 201, reply.text


async def check_all(client: httpx2.AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE):
        while await count(client, "complete") < JOBS:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.1)
    for number in range(JOBS):
        result = (await client.get(f"/api/jobs/job{number}/result")).content
        assert result.startswith(f"result of {number} ".encode())
    assert await count(client, "failed") == await count(client, "pending") == 0


async def kill_in_the_middle(folder: Path) -> list[bytes]:
    """What the workers did, over both lives of the server."""
    port = find_port()
    server = await start(folder, port)
    token = (folder / "tasks.db-admin-token").read_text().strip()
    run = Run([], asyncio.Event(), asyncio.Event())
    url = f"ws://127.0.0.1:{port}/api/worker"
    workers = [asyncio.ensure_future(work(url, f"w{number}", token, run)) for number in range(WORKERS)]
    base, headers = f"http://127.0.0.1:{port}", {"x-api-key": token}
    try:
        async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=20) as client:
            await submit_all(client)
            await soon(lambda: are_running(client, WORKERS))
            os.kill(server.pid, signal.SIGKILL)
            await server.wait()
            run.killed.set()
            server = await start(folder, port)
            await check_all(client)
    finally:
        run.ended.set()
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)
        server.kill()
        await server.communicate()
    return run.done


def test_jobs_survive_a_server_that_is_killed_while_they_run(tmp_path: Path) -> None:
    done = asyncio.run(kill_in_the_middle(tmp_path))
    assert len(set(done)) == JOBS
    assert len(done) <= JOBS + WORKERS


async def are_running(client: httpx2.AsyncClient, number: int) -> bool:
    return await count(client, "running") == number
