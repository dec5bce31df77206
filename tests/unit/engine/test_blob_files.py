"""The folder of blobs: its layout, its locks, and what it notices."""

import asyncio
import os
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ganger.core.errors import BlobCorrupt, FormatTooNew, StoreBroken, StoreMissingFolder
from ganger.engine.blob import GRACE, BlobHash, BlobRef, Collected, collect
from ganger.engine.blobs.blocks import BLOCK
from ganger.engine.blobs.draft import PROBES
from ganger.engine.blobs.files import FileBlobs
from ganger.runtime.clock import SystemClock
from ganger.runtime.disk import Probe, pass_by
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock, SeededEntropy

T = TypeVar("T")

CHILD_ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

READER = """
import asyncio, sys
from pathlib import Path
from ganger.engine.blob import BlobRef
from ganger.engine.blobs.files import FileBlobs
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

async def read(root, name, size):
    blobs = await FileBlobs.open(Path(root), SystemClock(), SystemEntropy())
    async for piece in blobs.read(BlobRef(name, int(size))):
        print("reading", flush=True)
        sys.stdin.readline()

asyncio.run(read(*sys.argv[1:]))
"""


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def open_blobs(tmp_path: Path, clock: FakeClock | None = None, probe: Probe = pass_by) -> FileBlobs:
    return await FileBlobs.open(tmp_path / "blobs", clock or FakeClock(), SeededEntropy(1), probe)


def path_of(tmp_path: Path, name: BlobHash) -> Path:
    return tmp_path / "blobs" / "objects" / name[:2] / name[2:]


def drafts_in(tmp_path: Path) -> list[str]:
    return os.listdir(tmp_path / "blobs" / "drafts")


async def drink(blobs: FileBlobs, ref: BlobRef) -> bytes:
    return b"".join([piece async for piece in blobs.read(ref)])


def test_content_is_synced_before_its_name_and_its_name_before_the_answer(tmp_path: Path) -> None:
    steps: list[str] = []

    async def put() -> None:
        await (await open_blobs(tmp_path, probe=steps.append)).put(b"content")

    run(put())
    assert tuple(steps) == PROBES
    assert PROBES[-4:] == ("blob.sync", "blob.rename", "blob.sync_folder", "blob.stored")


class Watched:
    """Sees which files the system is asked to sync and rename, and in which order."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, str]] = []
        sync, rename = os.fsync, os.rename

        def see_sync(fd: int) -> None:
            self.calls.append(("sync", Path(os.readlink(f"/proc/self/fd/{fd}")).name))
            sync(fd)

        def see_rename(old: Path, new: str, *, dst_dir_fd: int | None = None) -> None:
            self.calls.append(("rename", Path(new).name))
            rename(old, new, dst_dir_fd=dst_dir_fd)

        patch.setattr(os, "fsync", see_sync)
        patch.setattr(os, "rename", see_rename)


def test_the_disk_is_asked_to_sync_the_file_and_then_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def put() -> tuple[Watched, BlobRef]:
        blobs = await open_blobs(tmp_path)
        watched = Watched(monkeypatch)
        return watched, await blobs.put(b"content")

    watched, ref = run(put())
    (first, draft), *others = watched.calls
    assert (first, len(draft)) == ("sync", 32)
    assert others == [("rename", ref.hash[2:]), ("sync", ref.hash[:2])]


def test_a_deletion_is_synced_before_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def delete() -> tuple[Watched, BlobRef]:
        blobs = await open_blobs(tmp_path)
        ref = await blobs.put(b"content")
        watched = Watched(monkeypatch)
        await blobs.delete(ref.hash)
        return watched, ref

    watched, ref = run(delete())
    assert watched.calls == [("sync", ref.hash[:2])]


def test_a_new_folder_is_synced_before_its_format_says_that_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch)
    run(open_blobs(tmp_path))
    synced = [name for call, name in watched.calls if call == "sync"]
    assert [synced[0], synced[1], synced[2], synced[4]] == ["objects", "blobs", tmp_path.name, "blobs"]
    assert [call for call, _ in watched.calls] == ["sync", "sync", "sync", "sync", "rename", "sync"]


def test_files_and_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    async def put() -> BlobRef:
        return await (await open_blobs(tmp_path)).put(b"content")

    path = path_of(tmp_path, run(put()).hash)
    assert path.stat().st_mode & 0o777 == 0o600
    assert {folder.stat().st_mode & 0o777 for folder in list(path.parents)[:3]} == {0o700}


def test_a_folder_of_a_later_format_is_refused(tmp_path: Path) -> None:
    run(open_blobs(tmp_path))
    (tmp_path / "blobs" / "format").write_text("ganger blobs 2\n")
    with pytest.raises(FormatTooNew, match="upgrade"):
        run(open_blobs(tmp_path))


def test_a_format_file_that_says_nothing_is_refused(tmp_path: Path) -> None:
    run(open_blobs(tmp_path))
    (tmp_path / "blobs" / "format").write_text("")
    with pytest.raises(StoreBroken, match="format"):
        run(open_blobs(tmp_path))


def test_a_folder_is_not_made_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreMissingFolder):
        run(open_blobs(tmp_path / "nowhere"))


def test_a_folder_that_a_crash_left_half_made_is_finished(tmp_path: Path) -> None:
    (tmp_path / "blobs" / "objects" / "00").mkdir(parents=True)

    async def put() -> None:
        blobs = await open_blobs(tmp_path)
        assert await drink(blobs, await blobs.put(b"content")) == b"content"

    run(put())


def test_many_may_open_a_new_folder_at_once(tmp_path: Path) -> None:
    async def open_all() -> None:
        opening = (FileBlobs.open(tmp_path / "blobs", SystemClock(), SystemEntropy()) for _ in range(8))
        for blobs in await asyncio.gather(*opening):
            await blobs.put(b"content")

    run(open_all())
    assert drafts_in(tmp_path) == []


def test_a_shelf_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    async def put() -> None:
        blobs = await open_blobs(tmp_path)
        ref = await blobs.put(b"content")
        shelf = path_of(tmp_path, ref.hash).parent
        shelf.rename(tmp_path / "elsewhere")
        shelf.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StoreBroken):
            await blobs.put(b"content")
        with pytest.raises(StoreBroken):
            await blobs.delete(ref.hash)

    run(put())
    assert drafts_in(tmp_path) == []


@pytest.mark.parametrize("size", [0, 7, 2 * BLOCK + 1])
@pytest.mark.parametrize("rest", [0, 1, 100, -1])
def test_a_file_cut_short_is_noticed(size: int, rest: int, tmp_path: Path) -> None:
    async def check() -> None:
        blobs = await open_blobs(tmp_path)
        ref = await blobs.put(bytes(size))
        path = path_of(tmp_path, ref.hash)
        os.truncate(path, rest if rest >= 0 else path.stat().st_size - 1)
        with pytest.raises(BlobCorrupt):
            await drink(blobs, ref)
        with pytest.raises(BlobCorrupt):
            await blobs.size(ref.hash)

    run(check())


def test_a_whole_read_notices_forged_sums(tmp_path: Path) -> None:
    async def check() -> None:
        blobs = await open_blobs(tmp_path)
        true, false = bytes(3 * BLOCK), bytes(3 * BLOCK - 1) + b"!"
        ref, other = await blobs.put(true), await blobs.put(false)
        forge(path_of(tmp_path, ref.hash), path_of(tmp_path, other.hash), ref)
        async with aclosing(blobs.read(ref)) as pieces:
            assert await anext(pieces) + await anext(pieces) == true[: 2 * BLOCK]
            with pytest.raises(BlobCorrupt, match="has the hash"):
                await anext(pieces)

    run(check())


def forge(victim: Path, source: Path, ref: BlobRef) -> None:
    """Give the victim another's content, with sums that fit it and the victim's own name."""
    from ganger.engine.blobs.folder import seal_of
    from ganger.engine.blobs.seal import Seal, pack_seal

    data = source.read_bytes()
    with source.open("rb") as file:
        seal = seal_of(file.fileno(), BlobHash(source.parent.name + source.name))
    victim.write_bytes(data[: ref.size] + pack_seal(Seal(ref, seal.birth, seal.sums)))


def test_damaged_content_that_no_row_names_is_collected(tmp_path: Path) -> None:
    async def check() -> None:
        clock = FakeClock()
        blobs = await open_blobs(tmp_path, clock)
        path = path_of(tmp_path, (await blobs.put(b"content")).hash)
        path.write_bytes(b"damaged")
        os.utime(path, (clock.wall() / 1000, clock.wall() / 1000))
        assert await collect(blobs, name_nothing) == Collected(0, 0)
        clock.advance(GRACE)
        assert await collect(blobs, name_nothing) == Collected(1, 0)

    run(check())


async def name_nothing(_: object) -> set[str]:
    return set()


def test_files_that_are_not_ours_are_left_alone(tmp_path: Path) -> None:
    async def check() -> None:
        blobs = await open_blobs(tmp_path)
        strangers = [tmp_path / "blobs" / "objects" / "ab" / "notes.txt", tmp_path / "blobs" / "drafts" / "notes.txt"]
        for path in strangers:
            path.write_text("mine")
            os.utime(path, (0, 0))
        assert await collect(blobs, name_nothing, grace=0) == Collected(0, 0)
        assert all(path.exists() for path in strangers)

    run(check())


def test_a_reader_in_another_process_keeps_the_content(tmp_path: Path) -> None:
    async def put() -> tuple[FileBlobs, BlobRef]:
        blobs = await FileBlobs.open(tmp_path / "blobs", SystemClock(), SystemEntropy())
        return blobs, await blobs.put(b"content")

    blobs, ref = run(put())
    command = [sys.executable, "-c", READER, str(tmp_path / "blobs"), ref.hash, str(ref.size)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=CHILD_ENV) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        assert run(blobs.delete(ref.hash)) is False
        reader.communicate("go on\n", timeout=90)
    assert reader.returncode == 0
    assert run(blobs.delete(ref.hash)) is True


def test_the_draft_of_a_living_writer_is_spared_however_old(tmp_path: Path) -> None:
    async def check() -> None:
        blobs = await open_blobs(tmp_path)
        go_on = asyncio.Event()
        started = asyncio.Event()

        async def pour() -> AsyncIterator[bytes]:
            yield bytes(BLOCK)
            yield bytes(BLOCK)
            started.set()
            await go_on.wait()

        putting = asyncio.ensure_future(blobs.put(pour()))
        await started.wait()
        for name in drafts_in(tmp_path):
            os.utime(tmp_path / "blobs" / "drafts" / name, (0, 0))
        assert await blobs.sweep(GRACE) == 0
        go_on.set()
        assert await drink(blobs, await putting) == bytes(2 * BLOCK)

    run(check())


def test_a_draft_that_a_crash_left_is_swept_after_the_grace(tmp_path: Path) -> None:
    async def check() -> None:
        clock = FakeClock()
        blobs = await open_blobs(tmp_path, clock)
        left = tmp_path / "blobs" / "drafts" / ("0" * 32)
        left.write_bytes(b"half of it")
        os.utime(left, (clock.wall() / 1000, clock.wall() / 1000))
        assert await collect(blobs, name_nothing) == Collected(0, 0)
        clock.advance(GRACE)
        assert await collect(blobs, name_nothing) == Collected(0, 1)

    run(check())
    assert drafts_in(tmp_path) == []


@pytest.mark.parametrize("paused", ["blob.rename", "blob.sync_folder"])
def test_what_is_put_while_it_is_deleted_stays(paused: str, tmp_path: Path) -> None:
    async def check() -> None:
        clock, at_step, go_on = FakeClock(), threading.Event(), threading.Event()

        def pause(step: str) -> None:
            if step == paused:
                at_step.set()
                assert go_on.wait(60)

        plain = await open_blobs(tmp_path, clock)
        ref = await plain.put(b"content")
        clock.advance(GRACE)
        putting = asyncio.ensure_future((await open_blobs(tmp_path, clock, pause)).put(b"content"))
        await asyncio.to_thread(at_step.wait, 20)
        deleting = asyncio.ensure_future(plain.delete(ref.hash, GRACE))
        go_on.set()
        await putting
        assert await deleting is False
        assert await drink(plain, ref) == b"content"

    run(check())


def test_what_is_put_behind_a_deletion_is_there(tmp_path: Path) -> None:
    async def check() -> None:
        clock, at_step, stored = FakeClock(), threading.Event(), threading.Event()

        def pause(step: str) -> None:
            if step == "blob.unlink":
                at_step.set()
                # Were the put not made to wait for the deletion, it would be over here, and undone by what follows.
                stored.wait(0.3)

        plain = await open_blobs(tmp_path, clock)
        ref = await plain.put(b"content")
        clock.advance(GRACE)
        deleting = asyncio.ensure_future((await open_blobs(tmp_path, clock, pause)).delete(ref.hash, GRACE))
        await asyncio.to_thread(at_step.wait, 20)
        await plain.put(b"content")
        stored.set()
        assert await deleting is True
        assert await drink(plain, ref) == b"content"

    run(check())


def test_a_put_cancelled_in_the_middle_of_a_write_waits_for_it_and_clears_up(tmp_path: Path) -> None:
    async def check() -> None:
        at_step, go_on = threading.Event(), threading.Event()

        def pause(step: str) -> None:
            if step == "blob.write":
                at_step.set()
                assert go_on.wait(60)

        blobs = await open_blobs(tmp_path, probe=pause)
        putting = asyncio.ensure_future(blobs.put(b"content"))
        await asyncio.to_thread(at_step.wait, 20)
        for _ in range(3):
            putting.cancel()
            await asyncio.sleep(0)
        assert not putting.done()
        go_on.set()
        await asyncio.wait([putting])
        assert putting.cancelled()

    run(check())
    assert drafts_in(tmp_path) == []


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    async def check() -> None:
        blobs = await open_blobs(tmp_path)
        ref = await blobs.put(bytes(2 * BLOCK))
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            await use_and_abuse(blobs, ref)
        assert len(os.listdir("/proc/self/fd")) == before

    run(check())


async def use_and_abuse(blobs: FileBlobs, ref: BlobRef) -> None:
    async with aclosing(blobs.read(ref)) as pieces:
        await anext(pieces)
    with pytest.raises(BlobCorrupt):
        await drink(blobs, BlobRef(ref.hash, 3))
    reading = asyncio.ensure_future(drink(blobs, ref))
    putting = asyncio.ensure_future(blobs.put(b"more"))
    await asyncio.sleep(0)
    reading.cancel()
    putting.cancel()
    await asyncio.wait([reading, putting])
    await blobs.delete((await blobs.put(b"again")).hash)


def test_content_is_never_whole_in_memory(tmp_path: Path) -> None:
    async def pour() -> AsyncIterator[bytes]:
        for number in range(512):
            yield bytes([number % 251]) * 65_536

    async def check() -> int:
        blobs = await open_blobs(tmp_path)
        tracemalloc.start()
        try:
            ref = await blobs.put(pour())
            assert sum([len(piece) async for piece in blobs.read(ref)]) == 32 * BLOCK
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert run(check()) < 6 * BLOCK
