"""`ganger worker` in protocol 2: several jobs over one connection, which outlast it and the server."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import psutil

from tests.protocol.jobs.harness import Site, serve, soon
from tests.protocol.jobs.test_crash import find_port, start, wait_for
from tests.protocol.jobs.test_program import GANGER, hire, is_running


@asynccontextmanager
async def hire_at(url: str, token: str, folder: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker in a process of its own, for a server that may come and go."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", GANGER, "worker", "--url", url, *words,
        cwd=folder, env={"GANGER_TOKEN": token, "PATH": "/usr/bin:/bin"}, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield worker
    finally:
        worker.kill()
        await worker.wait()


def write_program(folder: Path) -> tuple[str, ...]:
    """It notes that it was begun, waits until it may go on, and answers."""
    program = folder / "solve"
    program.write_text(
        f"#!/bin/sh\necho $$ >> {folder}/begun\nuntil [ -e {folder}/go ]; do sleep 0.05; done\n"
        f'(printf "result of "; cat "$1") > "$2"\necho $$ >> {folder}/ended\n'
    )
    program.chmod(0o755)
    return str(program), "{payload}", "{result}"


async def outlast_a_kill(folder: Path) -> dict[str, object]:
    port = find_port()
    server = await start(folder, port)
    token = (folder / "tasks.db-admin-token").read_text().strip()
    url = f"http://127.0.0.1:{port}"
    try:
        async with (
            hire_at(url, token, folder, "--slots", "2", "--", *write_program(folder)),
            httpx2.AsyncClient(base_url=url, headers={"x-api-key": token}, timeout=90) as client,
        ):
            for key in ("one", "two"):
                await client.post(f"/api/jobs/submit?priority=batch&key={key}", content=key.encode())
            await wait_for(client, "running", 2)
            os.kill(server.pid, signal.SIGKILL)
            await server.wait()
            (folder / "go").touch()
            await soon(lambda: has_lines(folder / "ended", 2))
            server = await start(folder, port)
            assert (await client.get("/api/jobs/one/result?wait=60")).content == b"result of one"
            assert (await client.get("/api/jobs/two/result?wait=60")).content == b"result of two"
            shown: dict[str, object] = (await client.get("/api/jobs/one")).json()
            return shown
    finally:
        server.kill()
        await server.communicate()


def test_a_computation_outlasts_a_server_that_is_killed_and_its_result_is_taken(tmp_path: Path) -> None:
    shown = asyncio.run(outlast_a_kill(tmp_path))
    assert (shown["status"], shown["tries"], shown["crashes"]) == ("complete", 1, 0)
    assert len((tmp_path / "begun").read_text().splitlines()) == 2


def test_several_jobs_are_solved_at_a_time_over_one_connection(tmp_path: Path) -> None:
    async def run() -> None:
        async with serve(None) as site, hire(site, tmp_path, "--slots", "2", "--", *write_program(tmp_path)):
            jobs = [await site.submit(b"x") for _ in range(3)]
            await soon(lambda: has_lines(tmp_path / "begun", 2))
            (worker,) = await site.workers()
            assert (worker["state"], worker["job"]) == ("working", jobs[0]["id"])
            assert [(await site.show(job["key"]))["status"] for job in jobs] == ["running", "running", "pending"]
            (tmp_path / "go").touch()
            for job in jobs:
                assert await site.read(job["key"], "result", wait=15) == b"result of x"

    asyncio.run(run())


def count_lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


async def has_lines(file: Path, number: int) -> bool:
    return count_lines(file) == number


def test_a_job_that_is_deleted_is_ended_at_the_worker_which_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        async with serve(None) as site, hire(site, tmp_path, "--", *write_program(tmp_path)):
            job = await site.submit(b"x")
            await soon(lambda: has_lines(tmp_path / "begun", 1))
            assert (await site.client.delete(f"/api/jobs/{job['key']}")).status_code == 204
            program = int((tmp_path / "begun").read_text())
            await soon(lambda: is_over(program))
            (tmp_path / "go").touch()
            following = await site.submit(b"y")
            assert await site.read(following["key"], "result", wait=15) == b"result of y"

    asyncio.run(run())


async def is_over(pid: int) -> bool:
    return not psutil.pid_exists(pid)


def test_a_worker_that_is_told_twice_to_end_gives_its_jobs_back_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with serve(None) as site, hire(site, tmp_path, "--", *write_program(tmp_path)) as worker:
            job = await site.submit(b"x")
            await soon(lambda: is_running(site, job["key"]))
            worker.send_signal(signal.SIGTERM)
            assert worker.stderr is not None
            while b"finishing" not in await worker.stderr.readline():
                pass
            worker.send_signal(signal.SIGTERM)
            await asyncio.wait_for(worker.wait(), 60)
            await soon(lambda: is_pending(site, job["key"]))
            assert (await site.show(job["key"]))["crashes"] == 0

    asyncio.run(run())


async def is_pending(site: Site, key: str) -> bool:
    return bool((await site.show(key))["status"] == "pending")
