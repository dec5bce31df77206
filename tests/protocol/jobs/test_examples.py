"""Workers in other languages, as the examples show them."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.protocol.jobs.harness import Site, serve

EXAMPLES = Path(__file__).parents[3] / "examples" / "jobs"
NODE, COMPILER = shutil.which("node"), shutil.which("cc")
PAYLOADS = (b"short", b"x" * 70_000 + b"y", b"ab" * 1_500_000, b"")


@asynccontextmanager
async def hire(*words: str, **env: str) -> AsyncIterator[None]:
    worker = await asyncio.create_subprocess_exec(*words, env=env, stderr=subprocess.PIPE)
    try:
        yield
    finally:
        if worker.returncode is None:
            worker.kill()
        await worker.communicate()


async def check(site: Site) -> None:
    jobs = [await site.submit(payload) for payload in PAYLOADS]
    for job, payload in zip(jobs, PAYLOADS, strict=True):
        assert await site.read(job["key"], "result", wait=20) == payload[::-1]


@pytest.mark.skipif(NODE is None, reason="node is not here: the worker in JavaScript was not tried")
def test_the_worker_in_plain_javascript_works(tmp_path: Path) -> None:
    async def tell() -> None:
        async with serve(tmp_path) as site:
            url = f"{site.server.url.replace('http', 'ws', 1)}/api/worker"
            words = (str(NODE), "--experimental-websocket", "--no-warnings", str(EXAMPLES / "worker.mjs"))
            async with hire(*words, WORKER_URL=url, WORKER_TOKEN=site.secret):
                await check(site)

    asyncio.run(tell())


@pytest.mark.skipif(COMPILER is None, reason="cc is not here: the worker in C was not tried")
def test_the_worker_in_c_works(tmp_path: Path) -> None:
    program = tmp_path / "worker"
    source = str(EXAMPLES / "worker.c")
    subprocess.run([str(COMPILER), "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, source], check=True)

    async def tell() -> None:
        async with serve(tmp_path) as site:
            port = site.server.url.rpartition(":")[2]
            async with hire(str(program), "127.0.0.1", port, site.secret):
                await check(site)

    asyncio.run(tell())


@pytest.mark.parametrize("example", ["worker.mjs", "worker.c"])
def test_an_example_is_short(example: str) -> None:
    assert len((EXAMPLES / example).read_text().splitlines()) < 150
