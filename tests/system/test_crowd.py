"""A thousand who follow and a thousand who wait: little memory, nothing to do while nothing happens, all are told."""

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from tests.protocol.v1.harness import PATIENCE, Site, command, serve, soon
from tests.system.crowd import allow_descriptors

CROWD = 2_000
MEMORY = 100 << 20


@pytest.mark.slow
def test_a_thousand_long_polls_and_a_thousand_streams_fit_into_100_megabytes(tmp_path: Path) -> None:
    if not allow_descriptors():
        pytest.skip("this user may not open so many files")

    async def tell() -> None:
        async with serve(tmp_path) as site:
            before = psutil.Process().memory_info().rss
            process = await _gather(site)
            try:
                while await _hear(process) != b"ready\n":
                    pass
                await soon(lambda: _count(site, CROWD))
                assert psutil.Process().memory_info().rss - before < MEMORY
                await site.add(command())
                assert await _hear(process) == b"told\n"
                assert await process.wait() == 0
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            await soon(lambda: _count(site, 0))

    asyncio.run(tell())


async def _gather(site: Site) -> asyncio.subprocess.Process:
    host, _, port = site.server.url.removeprefix("http://").rpartition(":")
    words = ["-m", "tests.system.crowd", host, port, site.client.headers["authorization"], str(CROWD)]
    root = Path(__file__).parents[2]
    return await asyncio.create_subprocess_exec(sys.executable, *words, cwd=root, stdout=asyncio.subprocess.PIPE)


async def _hear(process: asyncio.subprocess.Process) -> bytes:
    """The next line: however long all of it takes, the crowd must come on."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        line = await process.stdout.readline()
    assert line, "the crowd has gone"
    return line


async def _count(site: Site, number: int) -> bool:
    return len(site.server.service.door.visits) == number
