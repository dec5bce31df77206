"""Data and output: one stream by offset, whatever lies where, under the fence of its writer."""

from collections.abc import AsyncIterator

import pytest

from ganger.core.errors import BadInput, BadName, BadNumber, BlobMissing, PayloadTooLarge, StaleLease, WrongStatus
from ganger.core.ids import Fence
from ganger.core.outcome import Release, Succeed
from ganger.engine.blobs.memory import MemoryBlobs
from ganger.engine.limits import Limits
from ganger.engine.store import Note, Progress
from ganger.testing.clock import FakeClock
from tests.unit.engine.stage import Stage, play

SMALL = Limits(payload=1_000, inline=100)


def blobs() -> MemoryBlobs:
    return MemoryBlobs(FakeClock())


async def pieces(count: int, body: bytes) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield body


def test_a_small_value_is_kept_and_read_in_parts() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        lease = (await stage.take_one()).lease
        await stage.engine.put_data(lease, "stderr", b"0123456789")
        part = await stage.engine.read_data(task, "stderr", 3, 4)
        assert (part.body, part.start, part.size) == (b"3456", 3, 10)
        assert (await stage.engine.read_data(task, "nothing")).size == 0

    play(scenario)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_large_value_becomes_a_blob_and_reads_the_same(streamed: bool) -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        lease = (await stage.take_one()).lease
        content = pieces(50, b"0123456789") if streamed else b"0123456789" * 50
        await stage.engine.put_data(lease, "report", content)
        assert (await stage.memory.value(task, "report")).blob is not None
        part = await stage.engine.read_data(task, "report", 495, 100)
        assert (part.body, part.size) == (b"56789", 500)

    play(scenario, limits=SMALL, blobs=blobs())


def test_without_a_place_for_blobs_what_is_large_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1)
        lease = (await stage.take_one()).lease
        await stage.engine.put_data(lease, "a", b"x" * 1_000)
        with pytest.raises(PayloadTooLarge):
            await stage.engine.put_data(lease, "b", b"x" * 1_001)
        with pytest.raises(PayloadTooLarge, match="no place for blobs"):
            await stage.engine.put_data(lease, "c", pieces(1, b"x"))
        with pytest.raises(PayloadTooLarge):
            await stage.engine.append_output(lease, "out", 0, b"x" * 1_001)

    play(scenario, limits=SMALL)


def test_output_in_chunks_and_blobs_is_one_stream_by_offset() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        lease = (await stage.take_one()).lease
        whole = b"".join(bytes([65 + n]) * size for n, size in enumerate((10, 300, 7, 250, 90)))
        start = 0
        for size in (10, 300, 7, 250, 90):
            await stage.engine.append_output(lease, "stdout", start, whole[start : start + size])
            await stage.engine.append_output(lease, "stdout", start, whole[start : start + size])
            start += size
        for offset in (0, 9, 10, 11, 309, 310, 400, 566, 567, 656, 657, 9_999):
            for most in (1, 8, 300, 10_000):
                part = await stage.engine.read_output(task, "stdout", offset, most)
                assert part.body == whole[offset : offset + most]
                assert (part.size, part.ended) == (657, False)
        await stage.engine.settle_by_lease(lease, Succeed())
        assert (await stage.engine.read_output(task, "stdout", 0, 1)).ended

    play(scenario, limits=SMALL, blobs=blobs())


def test_the_output_of_an_attempt_is_read_by_its_fence() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        for body in (b"first", b"second"):
            claimed = await stage.take_one()
            await stage.engine.append_output(claimed.lease, "stdout", 0, body)
            await stage.engine.settle([(claimed, Release())])
        assert (await stage.engine.read_output(task, "stdout")).body == b"second"
        assert (await stage.engine.read_output(task, "stdout", fence=Fence(1))).body == b"first"

    play(scenario)


def test_nothing_is_written_under_a_lost_lease() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1)
        claimed = await stage.take_one()
        await stage.engine.settle([(claimed, Release())])
        lease = claimed.lease
        with pytest.raises(StaleLease):
            await stage.engine.put_data(lease, "a", b"x")
        with pytest.raises(StaleLease):
            await stage.engine.append_output(lease, "stdout", 0, b"x")
        with pytest.raises(StaleLease):
            await stage.engine.progress(lease, 50.0)
        assert await stage.engine.renew([lease]) == [(0, "stale")]
        assert await stage.engine.write([Note(lease.task, lease.fence, progress=Progress(1, None))]) == [(0, "stale")]

    play(scenario)


def test_an_operator_writes_data_of_a_task_that_has_not_ended() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        await stage.engine.put_data(task, "note", b"one")
        await stage.engine.put_data(task, "note", b"two", only_if_unset=True)
        assert (await stage.engine.read_data(task, "note")).body == b"one"
        await stage.engine.cancel([task], by="ann")
        with pytest.raises(WrongStatus):
            await stage.engine.put_data(task, "note", b"three")

    play(scenario)


@pytest.mark.parametrize("key", ["spec", "out:stdout", "a\nb", ""])
def test_some_keys_are_not_written_as_data(key: str) -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        with pytest.raises((BadInput, BadName)):
            await stage.engine.put_data(task, key, b"x")

    play(scenario)


def test_reads_with_impossible_numbers_are_refused() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        with pytest.raises(BadNumber):
            await stage.engine.read_data(task, "spec", -1)
        with pytest.raises(BadNumber):
            await stage.engine.read_output(task, "stdout", 0, 0)

    play(scenario)


def test_a_blob_that_is_gone_is_said_to_be_gone() -> None:
    place = blobs()

    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        lease = (await stage.take_one()).lease
        await stage.engine.put_data(lease, "report", b"x" * 500)
        async for name in place.list():
            await place.delete(name)
        with pytest.raises(BlobMissing):
            await stage.engine.read_data(task, "report")

    play(scenario, limits=SMALL, blobs=place)


def test_progress_is_seen_and_out_of_range_it_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        (task,) = await stage.submit_many(1)
        lease = (await stage.take_one()).lease
        await stage.engine.progress(lease, 37.5, "copying")
        seen = await stage.get(task)
        assert (seen.percent, seen.info) == (37.5, "copying")
        with pytest.raises(BadNumber):
            await stage.engine.progress(lease, 101)

    play(scenario)


def test_a_touched_lease_lives_as_long_as_it_is_renewed() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.submit_many(1, renewal="touch", ttr=2_000)
        lease = (await stage.take_one()).lease
        for _ in range(5):
            stage.fake.advance(1_500)
            assert await stage.engine.renew([lease]) == []
        stage.fake.advance(2_000)
        assert await stage.engine.renew([lease]) == [(0, "stale")]
        with pytest.raises(BadNumber):
            await stage.engine.renew([lease], 10)

    play(scenario)
