"""A disk that is full while a payload or a result is on its way: a clear answer, no half of a job, and on it goes."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2

from ganger.assembly.server import open_server
from ganger.assembly.settings import Settings
from ganger.engine.blobs.files import FileBlobs
from ganger.engine.engine import Engine
from ganger.engine.stores.sqlite import SqliteStore
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy
from tests.protocol.jobs.harness import PATIENCE, Site

LARGE = b"large" * 200_000


class Disk:
    """A disk that is full when it is told to be."""

    def __init__(self) -> None:
        self.full = False

    def probe(self, name: str) -> None:
        if self.full and name == "blob.write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@asynccontextmanager
async def serve_on(disk: Disk, folder: Path) -> AsyncIterator[Site]:
    clock, entropy = SystemClock(), SystemEntropy()
    store = await SqliteStore.open(folder / "tasks.db", clock, entropy)
    blobs = await FileBlobs.open(folder / "blobs", clock, entropy, disk.probe)
    engine = Engine(store, clock, entropy, blobs=blobs)
    settings = Settings(store=f"sqlite:{folder / 'tasks.db'}", listen="127.0.0.1:0")
    try:
        async with asyncio.timeout(3 * PATIENCE), open_server(settings, engine) as server:
            headers = {"authorization": f"Bearer {server.tokens.admin_path.read_text().strip()}"}
            async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=PATIENCE) as client:
                yield Site(engine, server, client)
    finally:
        await engine.close()
        await store.close()


def test_an_upload_to_a_full_disk_is_refused_with_507_and_leaves_no_job(tmp_path: Path) -> None:
    async def tell() -> None:
        disk = Disk()
        async with serve_on(disk, tmp_path) as site:
            disk.full = True
            assert (await site.post(LARGE, priority="batch", key="k")).status_code == 507
            assert (await site.post(b"small", priority="batch")).status_code == 201
            disk.full = False
            await site.submit(LARGE, key="k")
            assert await site.read("k", "payload") == LARGE

    asyncio.run(tell())


def test_a_result_that_finds_a_full_disk_costs_the_job_no_try(tmp_path: Path) -> None:
    async def tell() -> None:
        disk = Disk()
        async with serve_on(disk, tmp_path) as site:
            await site.submit(b"x", key="k")
            async with site.join("one") as worker:
                await worker.take()
                disk.full = True
                await worker.give(LARGE)
                assert (await worker.end())[0] == 1011
            shown = await site.show("k")
            assert (shown["status"], shown["tries"], shown["crashes"]) == ("pending", 0, 0)
            disk.full = False
            async with site.join("two") as worker:
                await worker.take()
                await worker.give(LARGE)
                assert await site.read("k", "result", wait=10) == LARGE

    asyncio.run(tell())
