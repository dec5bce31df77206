"""A payload whose bytes the disk has changed is noticed, and never served."""

from pathlib import Path

from tests.protocol.jobs.harness import Site, soon, story_in

LARGE = b"large" * 200_000


def damage(folder: Path) -> None:
    """Change one byte of the only blob."""
    (blob,) = [file for file in folder.glob("*-blobs/**/*") if file.is_file() and file.stat().st_size > len(LARGE)]
    content = bytearray(blob.read_bytes())
    content[500_000] ^= 1
    blob.write_bytes(content)


@story_in
async def test_a_client_gets_an_error_and_no_wrong_byte(site: Site, folder: Path) -> None:
    await site.submit(LARGE, key="k")
    damage(folder)
    async with site.client.stream("GET", "/api/jobs/k/payload") as reply:
        assert reply.status_code == 500
        assert (await reply.aread()).count(b"large") == 0


@story_in
async def test_a_worker_is_sent_away_and_the_job_is_set_aside_with_the_reason(site: Site, folder: Path) -> None:
    await site.submit(LARGE, key="k")
    damage(folder)
    async with site.join() as worker:
        assert (await worker.end())[0] == 1011
    await soon(lambda: is_failed(site))
    assert "payload" in (await site.show("k"))["reason"]
    other = await site.submit(b"sound")
    async with site.join("other") as worker:
        assert await worker.take() == b"sound"
        await worker.give(b"")
        assert (await site.show(other["key"], wait=10))["status"] == "complete"


async def is_failed(site: Site) -> bool:
    return bool((await site.show("k"))["status"] == "failed")
