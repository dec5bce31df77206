"""What one process reads from a bucket, another does not remove."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from ganger.core.errors import BlobMissing
from ganger.engine.blob import GRACE, BlobHash, BlobRef, Collected, collect
from ganger.engine.blobs.bucket import Bucket, BucketPlace, Found
from ganger.engine.blobs.s3 import S3Blobs
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.contracts.blobs import MIB, drink, make_content
from tests.servers.moto import MotoServer

CONTENT = make_content(3 * MIB + 7)
HOUR = 60 * 60 * 1000
READER = """
import asyncio, hashlib, json, sys
from contextlib import aclosing
from ganger.engine.blob import BlobRef
from ganger.engine.blobs.bucket import Bucket, BucketPlace
from ganger.engine.blobs.s3 import S3Blobs
from ganger.testing.clock import FakeClock, SeededEntropy

async def read():
    place, name, size, passed = json.loads(sys.argv[1])
    clock = FakeClock()
    clock.advance(passed)
    blobs = S3Blobs(Bucket(BucketPlace(*place)), clock, SeededEntropy(8))
    digest = hashlib.sha256()
    async with aclosing(blobs.read(BlobRef(name, size))) as pieces:
        digest.update(await anext(pieces))
        print("reading", flush=True)
        sys.stdin.readline()
        async for piece in pieces:
            digest.update(piece)
    print(digest.hexdigest(), flush=True)

asyncio.run(read())
"""


async def name_nothing(names: object) -> set[str]:
    return set()


class Site:
    """A bucket, and blobs of two processes that see it alike: they have one clock."""

    def __init__(self, moto: MotoServer) -> None:
        self.place = moto.make_bucket()
        self.bucket = Bucket(self.place)
        self.clock = FakeClock()
        self.blobs = self.open(7)
        self.others = self.open(8)

    def open(self, seed: int) -> S3Blobs:
        return S3Blobs(Bucket(self.place), self.clock, SeededEntropy(seed))

    async def list(self, prefix: str) -> list[Found]:
        return [found async for found in self.bucket.list(prefix)]


def play(moto: MotoServer, act: Callable[[Site], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(50):
            await act(Site(moto))

    asyncio.run(run())


class Reader:
    """Another process, which has read a part."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        self._stdout, self._stdin = process.stdout, process.stdin

    async def hear(self) -> str:
        return (await self._stdout.readline()).decode().strip()

    async def go_on(self) -> str:
        """The hash of all that it read."""
        self._stdin.write(b"\n")
        return await self.hear()


@asynccontextmanager
async def read_elsewhere(place: BucketPlace, ref: BlobRef, passed: int) -> AsyncIterator[Reader]:
    given = json.dumps((place, ref.hash, ref.size, passed))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", READER, given, stdin=pipe, stdout=pipe)
    try:
        reader = Reader(process)
        assert await reader.hear() == "reading"
        yield reader
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def test_a_collection_spares_what_another_process_reads(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(CONTENT)
        site.clock.advance(GRACE)
        async with read_elsewhere(site.place, ref, GRACE) as reader:
            assert await collect(site.blobs, name_nothing) == Collected(0, 0)
            assert BlobHash(await reader.go_on()) == ref.hash
        assert await site.list("readers/") == []
        assert await collect(site.blobs, name_nothing) == Collected(1, 0)
        assert await site.list("") == []

    play(moto, act)


def test_a_reader_that_was_killed_keeps_its_content_for_six_hours(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(CONTENT)
        site.clock.advance(GRACE)
        async with read_elsewhere(site.place, ref, GRACE):
            pass
        site.clock.advance(6 * HOUR - 1)
        assert await collect(site.blobs, name_nothing) == Collected(0, 0)
        site.clock.advance(1)
        assert await collect(site.blobs, name_nothing) == Collected(1, 0)
        site.clock.advance(GRACE)
        await collect(site.blobs, name_nothing)
        assert await site.list("") == []

    play(moto, act)


def test_who_reads_fresh_content_leaves_no_mark_until_three_hours_have_passed(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(CONTENT)
        async with aclosing(site.others.read(ref)) as pieces:
            await anext(pieces)
            assert await site.list("readers/") == []
            site.clock.advance(3 * HOUR)
            await anext(pieces)
            assert len(await site.list("readers/")) == 1
        assert await site.list("readers/") == []

    play(moto, act)


def test_a_long_reading_renews_its_mark(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(CONTENT)
        site.clock.advance(GRACE)
        async with aclosing(site.others.read(ref)) as pieces:
            for _ in range(3):
                await anext(pieces)
                site.clock.advance(4 * HOUR)
                assert await collect(site.blobs, name_nothing) == Collected(0, 0)
                assert len(await site.list("readers/")) == 1

    play(moto, act)


def test_content_whose_seal_goes_between_the_look_and_the_mark_is_missing_before_the_first_byte(
    moto: MotoServer,
) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(CONTENT)
        site.clock.advance(GRACE)
        leave = site.others._copies.marks.leave

        async def leave_late(name: BlobHash) -> object:
            await site.blobs.delete(name)
            return await leave(name)

        site.others._copies.marks.leave = leave_late  # type: ignore[method-assign, assignment]
        with pytest.raises(BlobMissing):
            await drink(site.others, ref)
        assert await site.list("readers/") == []

    play(moto, act)


def test_content_that_is_marked_between_its_seal_and_itself_stays_until_it_is_read(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(CONTENT)
        site.clock.advance(GRACE)
        look, reading = site.blobs._copies.marks.are_on, site.others.read(ref)
        looks = iter((False,))

        async def look_early(name: BlobHash) -> bool:
            """The first look is from before the other process came."""
            if next(looks, True):
                return await look(name)
            await anext(reading)
            return False

        site.blobs._copies.marks.are_on = look_early  # type: ignore[method-assign]
        assert await site.blobs.delete(ref.hash, GRACE)
        assert await site.blobs.size(ref.hash) is None
        assert await site.blobs.sweep(GRACE) == 0
        rest = b"".join([piece async for piece in reading])
        assert rest == CONTENT[MIB:]
        assert await site.blobs.sweep(GRACE) == 1
        assert await site.list("") == []

    play(moto, act)


def test_a_put_leaves_the_copy_that_another_process_reads(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(CONTENT)
        site.clock.advance(7 * HOUR)
        async with aclosing(site.others.read(ref)) as pieces:
            await anext(pieces)
            await site.blobs.put(CONTENT)
            assert len(await site.list("content/")) == 2
        site.clock.advance(7 * HOUR)
        await site.blobs.put(CONTENT)
        assert len(await site.list("content/")) == 1

    play(moto, act)


def test_content_whose_address_was_told_is_not_collected_while_that_is_good(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(CONTENT)
        site.clock.advance(GRACE)
        await site.others.share(ref)
        assert await collect(site.blobs, name_nothing) == Collected(0, 0)
        site.clock.advance(6 * HOUR)
        assert await collect(site.blobs, name_nothing) == Collected(1, 0)

    play(moto, act)
