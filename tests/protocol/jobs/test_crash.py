"""The server is killed while workers work: every job ends exactly once, and nothing is lost."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Subprotocol

from tests.protocol.jobs.harness import READY

pytestmark = pytest.mark.timeout(600)

SLOTS = 20
SECOND = Subprotocol("ganger.jobs.2")
PATIENCE = 150.0
LARGE = 300_000


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def start(folder: Path, port: int) -> asyncio.subprocess.Process:
    words = ["-c", "from ganger.cli.main import main; main()", "server", "--listen", f"127.0.0.1:{port}"]
    # The workers here are silent while they wait for the end of the server, and must not be given up for it.
    patient = {**os.environ, "GANGER_WORKER_SILENCE": "10m"}
    server = await asyncio.create_subprocess_exec(
        sys.executable, *words, "--store", f"sqlite:{folder / 'tasks.db'}", stderr=asyncio.subprocess.PIPE, env=patient
    )
    assert server.stderr is not None
    while b"serving" not in await server.stderr.readline():
        pass
    return server


class Run(NamedTuple):
    """What the workers did, and what they wait for: they have jobs in their hands when the server is killed."""

    jobs: int
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
        if len(run.done) >= run.jobs // 4:
            await run.killed.wait()
        run.done.append(message[:20])
        await line.send(b"result of " + message)


Join = Callable[[str, str, str, Run], Awaitable[None]]


async def outlast(url: str, name: str, token: str, run: Run) -> None:
    """Work as protocol 2 has it: what was computed is kept over connections until its receipt has come."""
    session, results = None, dict[str, bytes]()
    while not run.ended.is_set():
        with suppress(ConnectionClosed, InvalidHandshake, OSError, EOFError):
            async with connect(url, max_size=None, compression=None, subprotocols=[SECOND]) as line:
                hello = {"code": 0, "name": name, "id": name, "token": token, "slots": SLOTS}
                await line.send(json.dumps({**hello, "session": session, "jobs": list(results)}))
                session = json.loads(await line.recv())["session"]
                await serve_lasting(line, results, run)
        await asyncio.sleep(0.05)


async def serve_lasting(line: Any, results: dict[str, bytes], run: Run) -> None:
    sending = asyncio.ensure_future(send_results(line, results, run))
    try:
        async for message in line:
            told = json.loads(message)
            if told["code"] == 2:
                await line.send(json.dumps(READY))
            elif told["code"] == 5:
                payload = await line.recv()
                run.done.append(payload[:20])
                results[told["job"]] = b"result of " + payload
            elif told["code"] == 7:
                results.pop(told["job"])
    finally:
        sending.cancel()
        await asyncio.wait([sending])


async def send_results(line: Any, results: dict[str, bytes], run: Run) -> None:
    await run.killed.wait()
    for job, result in list(results.items()):
        await line.send(json.dumps({"code": 5, "job": job}))
        await line.send(result)


async def count(client: httpx2.AsyncClient, status: str) -> int:
    with suppress(httpx2.TransportError):
        reply = await client.get("/api/jobs?limit=1")
        if reply.status_code == 200:
            found: int = reply.json()["counts"][status]
            return found
    return -1


async def wait_for(client: httpx2.AsyncClient, status: str, number: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while await count(client, status) < number:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.1)


async def submit_all(client: httpx2.AsyncClient, jobs: int) -> None:
    for number in range(jobs):
        body = f"{number} ".encode() + b"x" * (LARGE if number % 10 == 0 else 0)
        reply = await client.post(f"/api/jobs/submit?priority=batch&key=job{number}", content=body)
        assert reply.status_code == 201, reply.text


async def check_all(client: httpx2.AsyncClient, jobs: int) -> None:
    await wait_for(client, "complete", jobs)
    for number in range(jobs):
        result = (await client.get(f"/api/jobs/job{number}/result")).content
        assert result.startswith(f"result of {number} ".encode())
    assert await count(client, "failed") == await count(client, "pending") == 0


async def kill_in_the_middle(folder: Path, jobs: int, crew: int, join: Join) -> list[bytes]:
    """What the workers did, over both lives of the server."""
    port = find_port()
    server = await start(folder, port)
    token = (folder / "tasks.db-admin-token").read_text().strip()
    run = Run(jobs, [], asyncio.Event(), asyncio.Event())
    url = f"ws://127.0.0.1:{port}/api/worker"
    workers = [asyncio.ensure_future(join(url, f"w{number}", token, run)) for number in range(crew)]
    base, headers = f"http://127.0.0.1:{port}", {"x-api-key": token}
    try:
        async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=90) as client:
            await submit_all(client, jobs)
            await wait_for(client, "running", crew * SLOTS if join is outlast else crew)
            os.kill(server.pid, signal.SIGKILL)
            await server.wait()
            run.killed.set()
            server = await start(folder, port)
            await check_all(client, jobs)
    finally:
        run.ended.set()
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)
        server.kill()
        await server.communicate()
    return run.done


@pytest.mark.parametrize(("jobs", "crew"), [(60, 6), pytest.param(1_000, 50, marks=pytest.mark.slow)])
def test_jobs_survive_a_server_that_is_killed_while_they_run(tmp_path: Path, jobs: int, crew: int) -> None:
    done = asyncio.run(kill_in_the_middle(tmp_path, jobs, crew, work))
    assert len(set(done)) == jobs
    assert len(done) <= jobs + crew


@pytest.mark.parametrize(("jobs", "crew"), [(60, 3), pytest.param(1_000, 50, marks=pytest.mark.slow)])
def test_computations_in_flight_outlast_a_server_that_is_killed(tmp_path: Path, jobs: int, crew: int) -> None:
    """All jobs are in the hands of workers of protocol 2 when it is killed, and none is computed a second time."""
    done = asyncio.run(kill_in_the_middle(tmp_path, jobs, crew, outlast))
    assert sorted(done) == sorted(set(done))
    assert len(done) == jobs
