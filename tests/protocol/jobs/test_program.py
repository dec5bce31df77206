"""`ganger worker`: functions and programs that solve jobs."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.protocol.jobs.harness import Site, serve, soon

MODULE = """
import asyncio

def reverse(payload):
    return payload[::-1]

def fail(payload):
    raise ValueError("no splines in " + payload.decode())

async def slowly(payload, report):
    report(50.0, "half")
    while not payload.endswith(b"now"):
        await asyncio.sleep(1)
    return b"x" * 3_000_000

def wrong(payload):
    return "text"
"""
GANGER = "from ganger.cli.main import main; main()"


@asynccontextmanager
async def hire(site: Site, folder: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker in a process of its own."""
    (folder / "solvers.py").write_text(MODULE)
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", GANGER, "worker", "--url", site.server.url, *words,
        cwd=folder, env={"GANGER_TOKEN": site.secret, "PATH": "/usr/bin:/bin"}, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield worker
    finally:
        if worker.returncode is None:
            worker.kill()
        await worker.communicate()


Tale = Callable[[Site, Path], Awaitable[None]]

both = pytest.mark.parametrize("protocol", ["1", "2"])


def play(folder: Path, tell: Tale, **settings: str) -> None:
    async def run() -> None:
        async with serve(None, **settings) as site:
            await tell(site, folder)

    asyncio.run(run())


@both
def test_a_function_solves_jobs(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        async with hire(site, folder, "--protocol", protocol, "--name", "rev", "solvers:reverse"):
            for number in range(3):
                job = await site.submit(f"job {number}".encode())
                assert await site.read(job["key"], "result", wait=15) == f"job {number}".encode()[::-1]
            (worker,) = await site.workers()
            assert (worker["name"], worker["succeeded"]) == ("rev", 3)

    play(tmp_path, tell)


@both
def test_what_a_function_raises_is_the_reason_and_its_trace_the_log(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        async with hire(site, folder, "--protocol", protocol, "solvers:fail"):
            job = await site.submit(b"this")
            shown = await site.show(job["key"], wait=15)
            assert (shown["status"], shown["reason"]) == ("failed", "ValueError: no splines in this")
            assert b'raise ValueError("no splines' in await site.read(job["key"], "logs")

    play(tmp_path, tell, job_tries="1")


@both
def test_a_function_that_returns_no_bytes_has_failed(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        async with hire(site, folder, "--protocol", protocol, "solvers:wrong"):
            job = await site.submit(b"this")
            assert "returned str" in (await site.show(job["key"], wait=15))["reason"]

    play(tmp_path, tell, job_tries="1")


@both
def test_a_function_may_be_async_and_tell_its_progress(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        async with hire(site, folder, "--protocol", protocol, "solvers:slowly"):
            job = await site.submit(b"wait")

            async def is_half() -> bool:
                shown = await site.show(job["key"])
                return (shown["percent"], shown["info"]) == (50.0, "half")

            await soon(is_half)

    play(tmp_path, tell)


@both
def test_a_program_reads_and_writes_the_files_that_it_is_told(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        async with hire(site, folder, "--protocol", protocol, "--", "cp", "{payload}", "{result}"):
            job = await site.submit(b"a" * 3_000_000)
            assert await site.read(job["key"], "result", wait=15) == b"a" * 3_000_000

    play(tmp_path, tell)


@both
def test_a_program_without_files_is_a_filter(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        async with hire(site, folder, "--protocol", protocol, "--slots", "3", "--", "tr", "a-z", "A-Z"):
            jobs = [await site.submit(f"job {number}".encode()) for number in range(6)]
            for number, job in enumerate(jobs):
                assert await site.read(job["key"], "result", wait=15) == f"JOB {number}".encode()
            assert len(await site.workers()) == (3 if protocol == "1" else 1)

    play(tmp_path, tell)


@both
def test_a_program_that_fails_tells_its_code_and_what_it_wrote(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        async with hire(site, folder, "--protocol", protocol, "--", "sh", "-c", "echo no splines >&2; exit 7"):
            job = await site.submit(b"x")
            assert (await site.show(job["key"], wait=15))["reason"] == "sh ended with code 7"
            assert await site.read(job["key"], "logs") == b"no splines\n"

    play(tmp_path, tell, job_tries="1")


@both
def test_a_worker_that_is_told_to_end_finishes_its_job(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        begun, go = folder / "begun", folder / "go"
        program = f"touch {begun}; until [ -e {go} ]; do sleep 0.05; done; cat"
        async with hire(site, folder, "--protocol", protocol, "--", "sh", "-c", program) as worker:
            job = await site.submit(b"x")
            # The store knows of a claim before the worker does: one that is told to end in between gives the job back.
            await soon(lambda: asyncio.to_thread(begun.exists))
            assert (await site.show(job["key"]))["status"] == "running"
            worker.send_signal(signal.SIGTERM)
            assert worker.stderr is not None
            while b"finishing" not in await worker.stderr.readline():
                pass
            go.touch()
            assert await site.read(job["key"], "result", wait=15) == b"x"
            assert await asyncio.wait_for(worker.wait(), 60) == 0

    play(tmp_path, tell)


@both
@pytest.mark.skipif(sys.platform != "linux", reason="who is there is read from /proc")
def test_a_worker_that_is_killed_leaves_no_program_behind(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        begun = folder / "begun"
        program = f"sleep 1000 & echo $$ $! > {begun}.new; mv {begun}.new {begun}; wait"
        async with hire(site, folder, "--protocol", protocol, "--", "sh", "-c", program) as worker:
            await site.submit(b"x")
            await soon(lambda: asyncio.to_thread(begun.exists))
            pids = begun.read_text().split()
            assert len(pids) == 2
            assert await are_there(pids) == pids
            worker.kill()
            await soon(lambda: are_gone(pids))

    play(tmp_path, tell)


@both
def test_a_program_that_is_removed_fails_the_job_with_a_sentence(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        program = folder / "tool"
        program.write_text("#!/bin/sh\ncat\n")
        program.chmod(0o755)
        async with hire(site, folder, "--protocol", protocol, "--", "./tool"):
            await soon(lambda: is_enrolled(site))
            program.unlink()
            job = await site.submit(b"x")
            reason = (await site.show(job["key"], wait=15))["reason"]
            assert reason == "./tool cannot be run: there is no such program, or it is not executable"

    play(tmp_path, tell, job_tries="1")


@both
def test_a_worker_whose_program_is_not_there_says_so_and_takes_no_job(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        async with hire(site, folder, "--protocol", protocol, "--", "./no-such-program") as worker:
            _, told = await worker.communicate()
            assert worker.returncode == 2
            assert b"./no-such-program" in told
            assert b"takes jobs" not in told

    play(tmp_path, tell)


async def is_enrolled(site: Site) -> bool:
    return bool((await site.client.get("/api/workers")).json())


async def are_there(pids: list[str]) -> list[str]:
    """Those that run; one that has ended and waits for its parent does not."""
    states = [await asyncio.to_thread(read_state, pid) for pid in pids]
    return [pid for pid, state in zip(pids, states, strict=True) if state not in (None, "Z")]


async def are_gone(pids: list[str]) -> bool:
    return not await are_there(pids)


def read_state(pid: str) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


async def is_running(site: Site, key: str) -> bool:
    return bool((await site.show(key))["status"] == "running")


@both
def test_a_worker_without_a_good_token_ends_with_a_sentence(tmp_path: Path, protocol: str) -> None:
    async def tell(site: Site, folder: Path) -> None:
        site.secret = "wrong"
        async with hire(site, folder, "--protocol", protocol, "solvers:reverse") as worker:
            _, told = await asyncio.wait_for(worker.communicate(), 60)
            assert b"token" in told
            assert worker.returncode not in (0, None)

    play(tmp_path, tell)


def test_a_type_that_is_not_there_ends_the_worker(tmp_path: Path) -> None:
    async def tell(site: Site, folder: Path) -> None:
        async with hire(site, folder, "--type", "film", "solvers:reverse") as worker:
            _, told = await asyncio.wait_for(worker.communicate(), 60)
            assert b"job_types" in told

    play(tmp_path, tell)


def test_a_worker_looks_for_its_program_before_it_says_that_it_takes_jobs(tmp_path: Path) -> None:
    async def tell() -> None:
        async with serve(tmp_path) as site, hire(site, tmp_path, "--", "no-such-program") as worker:
            assert worker.stderr is not None
            said = (await worker.stderr.read()).decode()
            assert await worker.wait() != 0
        assert "there is no program 'no-such-program'" in said
        assert "takes jobs" not in said

    asyncio.run(tell())


@pytest.mark.parametrize("protocol", ["1", "2"])
def test_a_worker_says_that_it_takes_jobs_when_the_server_has_let_it_in(tmp_path: Path, protocol: str) -> None:
    async def tell() -> None:
        async with serve(tmp_path) as site:
            async with hire(site, tmp_path, "--protocol", protocol, "--", "cat") as worker:
                assert worker.stderr is not None
                assert b"takes jobs at" in await worker.stderr.readline()
                assert len(await site.workers()) == 1
            site.secret = "wrong"
            async with hire(site, tmp_path, "--protocol", protocol, "--", "cat") as worker:
                assert worker.stderr is not None
                said = await worker.stderr.read()
                assert await worker.wait() != 0
            assert b"token" in said
            assert b"takes jobs" not in said

    asyncio.run(tell())
