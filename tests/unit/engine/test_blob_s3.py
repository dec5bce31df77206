"""What only a bucket has: drafts at the service, copies, addresses, and a service that is away or says no."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.request import Request, urlopen

import pytest

from ganger.core.errors import (
    BadBlobRef,
    BlobCorrupt,
    BlobMissing,
    FormatTooNew,
    NotFound,
    PayloadTooLarge,
    StoreBroken,
    StoreReadOnly,
    StoreUnavailable,
)
from ganger.engine.blob import GRACE, Sharing
from ganger.engine.blobs.bucket import Bucket, BucketPlace, Found
from ganger.engine.blobs.s3 import S3Blobs
from ganger.testing.clock import FakeClock, SeededEntropy
from ganger.testing.contracts.blobs import MIB, drink, list_names, make_content, pour
from tests.servers.moto import MotoServer

LARGE = make_content(20 * MIB + 3)


class Site:
    """A bucket of its own, and blobs in it."""

    def __init__(self, moto: MotoServer, largest_copy: int = 5 << 30) -> None:
        self.moto = moto
        self.place = moto.make_bucket()
        self.bucket = Bucket(self.place)
        self.clock = FakeClock()
        self.blobs = S3Blobs(self.bucket, self.clock, SeededEntropy(7), largest_copy)

    async def list(self, prefix: str) -> list[Found]:
        return [found async for found in self.bucket.list(prefix)]

    def send(self, url: str, body: bytes) -> None:
        request = Request(url, body, {"content-type": "application/octet-stream"}, method="PUT")
        with urlopen(request, timeout=30):
            pass

    def get(self, url: str) -> bytes:
        with urlopen(url, timeout=30) as answer:
            said: bytes = answer.read()
            return said


def play(moto: MotoServer, act: Callable[[Site], Awaitable[None]], largest_copy: int = 5 << 30) -> None:
    async def run() -> None:
        async with asyncio.timeout(50):
            await act(Site(moto, largest_copy))

    asyncio.run(run())


@pytest.mark.parametrize("largest_copy", [5 << 30, 1 << 20])
def test_what_is_large_goes_through_a_draft_of_which_nothing_is_left(moto: MotoServer, largest_copy: int) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(pour(LARGE, 300_000))
        assert await drink(site.blobs, ref) == LARGE
        assert await drink(site.blobs, ref, 9 * MIB + 5, 3 * MIB) == LARGE[9 * MIB + 5 : 12 * MIB + 5]
        assert await site.list("drafts/") == []
        assert "<Upload>" not in moto.list_pending(site.place.bucket)

    play(moto, act, largest_copy)


def test_a_put_that_breaks_off_leaves_no_parts_at_the_service(moto: MotoServer) -> None:
    async def break_off() -> AsyncIterator[bytes]:
        yield LARGE
        raise ValueError("the source broke off")

    async def act(site: Site) -> None:
        with pytest.raises(ValueError, match="broke off"):
            await site.blobs.put(break_off())
        assert "<Upload>" not in moto.list_pending(site.place.bucket)
        assert await site.list("") == []

    play(moto, act)


def test_a_put_that_is_cancelled_leaves_no_parts_at_the_service(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        reached = asyncio.Event()

        async def stall() -> AsyncIterator[bytes]:
            yield LARGE
            reached.set()
            await asyncio.Event().wait()

        putting = asyncio.ensure_future(site.blobs.put(stall()))
        await reached.wait()
        putting.cancel()
        await asyncio.wait([putting])
        assert putting.cancelled()
        assert "<Upload>" not in moto.list_pending(site.place.bucket)
        assert await site.list("") == []

    play(moto, act)


def test_what_a_writer_that_died_has_left_is_swept_when_it_is_old(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        kept = await site.blobs.put(b"kept")
        ref = await site.blobs.put(b"copied, and never sealed")
        await site.bucket.delete([found.path for found in await site.list(f"seals/{ref.hash}/")])
        await site.bucket.put(f"drafts/{(await site.blobs.offer()).name}", b"a draft")
        site.clock.advance(GRACE - 1)
        assert await site.blobs.sweep(GRACE) == 0
        site.clock.advance(1)
        assert await site.blobs.sweep(GRACE) == 2
        assert await list_names(site.blobs) == [kept.hash]
        assert len(await site.list("content/")) == 1
        assert await drink(site.blobs, kept) == b"kept"

    play(moto, act)


def test_what_strangers_put_into_the_bucket_is_left_alone(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        for path in ("seals/x", "content/mine", "drafts/notes.txt", f"seals/{'a' * 64}/short"):
            await site.bucket.put(path, b"mine")
        assert await list_names(site.blobs) == []
        assert await site.blobs.sweep(0) == 0
        assert len(await site.list("")) == 4

    play(moto, act)


def test_copies_that_are_superseded_go_when_nobody_can_have_their_address(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(b"content")
        url = await site.blobs.share(ref)
        await site.blobs.put(b"content")
        assert len(await site.list("seals/")) == 2
        assert await asyncio.to_thread(site.get, url) == b"content"
        site.clock.advance(7 * 60 * 60 * 1000)
        await site.blobs.put(b"content")
        assert len(await site.list("seals/")) == len(await site.list("content/")) == 1

    play(moto, act)


def test_a_wall_clock_that_jumps_back_does_not_bring_a_damaged_copy_back(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(b"content")
        (copy,) = await site.list("content/")
        await site.bucket.put(copy.path, b"c0ntent")
        with pytest.raises(BlobCorrupt):
            await site.blobs.verify(ref.hash)
        site.clock.jump_wall(-GRACE)
        await site.blobs.put(b"content")
        assert await drink(site.blobs, ref) == b"content"

    play(moto, act)


@pytest.mark.parametrize("content", [b"conten", b"", b"content and more"])
def test_content_that_was_cut_short_or_lost_is_never_served(moto: MotoServer, content: bytes) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(b"content")
        (copy,) = await site.list("content/")
        await site.bucket.put(copy.path, content)
        if len(content) < 7:
            with pytest.raises(BlobCorrupt):
                await drink(site.blobs, ref)
        else:
            assert await drink(site.blobs, ref) == b"content"
        await site.bucket.delete([copy.path])
        with pytest.raises(BlobMissing, match="lost its content"):
            await drink(site.blobs, ref)

    play(moto, act)


def test_a_seal_that_was_changed_is_damage(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(b"content")
        (seal,) = await site.list("seals/")
        for forged in (b"", b"x" * 10, (await site.bucket.read(seal.path))[:-1] + b"x"):
            await site.bucket.put(seal.path, forged)
            with pytest.raises(BlobCorrupt):
                await drink(site.blobs, ref)

    play(moto, act)


def test_content_is_got_from_its_address_without_a_key(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        assert isinstance(site.blobs, Sharing)
        ref = await site.blobs.put(pour(LARGE, MIB))
        assert await asyncio.to_thread(site.get, await site.blobs.share(ref)) == LARGE

    play(moto, act)


def test_what_was_uploaded_is_taken_in_once(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        upload = await site.blobs.offer()
        with pytest.raises(NotFound, match="nothing was uploaded"):
            await site.blobs.adopt(upload.name, 1 << 30)
        await asyncio.to_thread(site.send, upload.url, LARGE)
        ref = await site.blobs.adopt(upload.name, 1 << 30)
        assert await drink(site.blobs, ref) == LARGE
        assert await site.list("drafts/") == []
        await asyncio.to_thread(site.send, upload.url, b"something else")
        assert await drink(site.blobs, ref) == LARGE
        site.clock.advance(GRACE)
        assert await site.blobs.sweep(GRACE) == 1

    play(moto, act)


def test_an_upload_may_be_empty(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        upload = await site.blobs.offer()
        await asyncio.to_thread(site.send, upload.url, b"")
        ref = await site.blobs.adopt(upload.name, 0)
        assert ref.size == 0
        assert await drink(site.blobs, ref) == b""

    play(moto, act)


def test_an_upload_that_is_too_large_or_has_no_name_of_ours_is_refused(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        upload = await site.blobs.offer()
        await asyncio.to_thread(site.send, upload.url, b"12345")
        with pytest.raises(PayloadTooLarge):
            await site.blobs.adopt(upload.name, 4)
        assert await site.list("") == []
        for name in ("", "x", "../format", "a" * 128 + "\n", "A" * 128):
            with pytest.raises(BadBlobRef):
                await site.blobs.adopt(name, 4)

    play(moto, act)


def test_a_bucket_that_is_not_there_is_said_so(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        place = site.place._replace(bucket="nowhere")
        with pytest.raises(StoreBroken, match="there is no bucket 'nowhere'"):
            await S3Blobs.open(place, site.clock, SeededEntropy(1))

    play(moto, act)


def test_a_layout_of_a_later_version_is_refused(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        await site.bucket.put("format", b"ganger blobs 2\n")
        with pytest.raises(FormatTooNew):
            await S3Blobs.open(site.place, site.clock, SeededEntropy(1))
        await site.bucket.put("format", b"somebody else's")
        with pytest.raises(StoreBroken, match="none of ours"):
            await S3Blobs.open(site.place, site.clock, SeededEntropy(1))

    play(moto, act)


def test_a_service_that_does_not_answer_is_unavailable(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        with pytest.raises(StoreUnavailable, match="try again"):
            await S3Blobs.open(BucketPlace("b", "", "http://127.0.0.1:9", "r", "k", "s"), site.clock, SeededEntropy(1))

    play(moto, act)


def test_a_service_that_stands_still_for_a_while_loses_nothing(moto: MotoServer) -> None:
    async def act(site: Site) -> None:
        ref = await site.blobs.put(b"content")
        os.kill(moto.pid, signal.SIGSTOP)
        try:
            putting = asyncio.ensure_future(site.blobs.put(LARGE))
            reading = asyncio.ensure_future(drink(site.blobs, ref))
            done, _ = await asyncio.wait([putting, reading], timeout=0.5)
            assert not done
        finally:
            os.kill(moto.pid, signal.SIGCONT)
        assert await reading == b"content"
        assert await drink(site.blobs, await putting) == LARGE

    play(moto, act)


ANSWER = b"HTTP/1.1 %d No\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b"


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [(403, b"AccessDenied", StoreReadOnly), (401, b"InvalidAccessKeyId", StoreReadOnly),
     (400, b"QuotaExceeded", None), (503, b"SlowDown", StoreUnavailable)],
)  # fmt: skip
def test_what_the_service_refuses_has_a_clear_code(status: int, code: bytes, error: type[Exception] | None) -> None:
    from ganger.core.errors import StoreFull

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"<Error><Code>%b</Code></Error>" % code
        writer.write(ANSWER % (status, len(body), body))
        await writer.drain()
        writer.close()

    async def run() -> None:
        async with asyncio.timeout(50), await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            place = BucketPlace("b", "", f"http://127.0.0.1:{port}", "r", "k", "s")
            with pytest.raises(error or StoreFull, match=code.decode()):
                await S3Blobs.open(place, FakeClock(), SeededEntropy(1))

    asyncio.run(run())
