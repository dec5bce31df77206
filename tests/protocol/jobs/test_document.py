"""The worker that the documentation shows runs as it is written."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

from tests.protocol.jobs.harness import Site, story

PAGE = Path(__file__).parents[3] / "docs" / "protocols" / "jobs.md"


@story
async def test_the_worker_of_the_page_works(site: Site) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    url = f"{site.server.url.replace('http', 'ws', 1)}/api/worker"
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env={"WORKER_URL": url, "WORKER_TOKEN": site.secret}, stderr=subprocess.PIPE
    )
    try:
        jobs = [await site.submit(f"job {number}".encode()) for number in range(5)]
        for number, job in enumerate(jobs):
            assert await site.read(job["key"], "result", wait=15) == f"job {number}".encode()[::-1]
    finally:
        worker.kill()
        await worker.communicate()


@story
async def test_every_address_is_on_the_page(site: Site) -> None:
    page = PAGE.read_text()
    for route in site.server.service.door.table.rows:
        if route.path.startswith("/api/") and route.path != "/api/worker":
            assert f"| `{route.method} {route.path}` | `{route.need.value}` |" in page, route.path
