"""Whatever fails or dies while content is put: nothing half is seen, nothing false is acknowledged, and it goes on."""

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ganger.core.errors import BlobMissing, StoreBroken, StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from ganger.engine.blob import BlobHash, BlobRef, Collected, collect
from ganger.engine.blobs.blocks import BLOCK
from ganger.engine.blobs.draft import PROBES
from ganger.engine.blobs.files import FileBlobs
from ganger.runtime.clock import SystemClock
from ganger.runtime.disk import pass_by
from ganger.runtime.entropy import SystemEntropy
from ganger.testing.clock import FakeClock, SeededEntropy

pytestmark = pytest.mark.slow

CONTENT = bytes(range(256)) * 10_000

WRITER = """
import asyncio, os, signal, sys
from pathlib import Path
from ganger.engine.blobs.files import FileBlobs
from ganger.runtime.clock import SystemClock
from ganger.runtime.entropy import SystemEntropy

def die_at(fatal):
    def probe(step):
        if step == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
    return probe

async def write(root, fatal):
    blobs = await FileBlobs.open(Path(root), SystemClock(), SystemEntropy(), die_at(fatal))
    print((await blobs.put(bytes(range(256)) * 10_000)).hash, flush=True)

asyncio.run(write(*sys.argv[1:]))
"""


class Failing:
    """A probe that lets the n-th step of a put fail as the system would."""

    def __init__(self, at: int, error: int) -> None:
        self._left = at
        self._error = error
        self.fired: str | None = None

    def __call__(self, step: str) -> None:
        if step == "blob.stored":
            # It comes after the last call of the system: there is nothing left that could fail.
            return
        self._left -= 1
        if self._left == 0:
            self.fired = step
            raise OSError(self._error, os.strerror(self._error))


def drafts_in(root: Path) -> list[str]:
    return os.listdir(root / "drafts")


async def list_names(blobs: FileBlobs) -> list[BlobHash]:
    return [name async for name in blobs.list()]


async def name_nothing(_: object) -> set[str]:
    return set()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errno.EIO, StoreBroken),
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EROFS, StoreReadOnly),
        (errno.EMFILE, StoreUnavailable),
    ],
)
def test_every_step_of_a_put_may_fail_once(error: int, kind: type[StoreError], tmp_path: Path) -> None:
    async def fail_at(number: int) -> str | None:
        root, failing = tmp_path / f"blobs-{number}", Failing(number, error)
        blobs = await FileBlobs.open(root, FakeClock(), SeededEntropy(number), failing)
        if not await put_fails(blobs, kind):
            return None
        # Only a name that could not be synced may be seen: it bears whole content, which nobody was promised.
        assert await list_names(blobs) == [] or failing.fired == "blob.sync_folder"
        assert drafts_in(root) == []
        ref = await blobs.put(CONTENT)
        assert await blobs.verify(ref.hash) == ref
        return failing.fired

    async def loop() -> list[str]:
        fired: list[str] = []
        while step := await fail_at(len(fired) + 1):
            fired.append(step)
        return fired

    assert {*asyncio.run(loop()), "blob.stored"} == set(PROBES)


async def put_fails(blobs: FileBlobs, kind: type[StoreError]) -> bool:
    try:
        await blobs.put(CONTENT)
    except kind:
        return True
    return False


@pytest.mark.parametrize("fatal", PROBES)
def test_a_writer_killed_at_any_step_leaves_nothing_half(fatal: str, tmp_path: Path) -> None:
    root = tmp_path / "blobs"
    died = subprocess.run(
        [sys.executable, "-c", WRITER, str(root), fatal], capture_output=True, check=False, timeout=90
    )
    assert (died.returncode, died.stdout) == (-signal.SIGKILL, b"")

    async def look() -> None:
        blobs = await FileBlobs.open(root, SystemClock(), SystemEntropy())
        names = await list_names(blobs)
        assert len(names) == (fatal in ("blob.sync_folder", "blob.stored"))
        for name in names:
            assert await blobs.verify(name) == BlobRef(name, len(CONTENT))
        left = len(drafts_in(root))
        assert left == (PROBES.index("blob.create") < PROBES.index(fatal) <= PROBES.index("blob.rename"))
        assert await collect(blobs, name_nothing) == Collected(0, 0)
        assert await collect(blobs, name_nothing, grace=0) == Collected(len(names), left)

    asyncio.run(look())


def test_a_deletion_that_fails_says_so_and_may_be_repeated(tmp_path: Path) -> None:
    async def check() -> None:
        blobs = await FileBlobs.open(tmp_path / "blobs", FakeClock(), SeededEntropy(1))
        ref = await blobs.put(b"content")
        for number in (1, 2):
            failing = await FileBlobs.open(
                tmp_path / "blobs", FakeClock(), SeededEntropy(2), Failing(number, errno.EIO)
            )
            with pytest.raises(StoreBroken):
                await failing.delete(ref.hash)
        assert await blobs.delete(ref.hash) is False
        with pytest.raises(BlobMissing):
            await blobs.verify(ref.hash)

    asyncio.run(check())


@contextmanager
def file_size_limited(limit: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_write_that_the_system_cuts_short_is_not_taken_for_whole(tmp_path: Path) -> None:
    async def check() -> None:
        blobs = await FileBlobs.open(tmp_path / "blobs", FakeClock(), SeededEntropy(1), pass_by)
        with file_size_limited(BLOCK + 1000), pytest.raises(StoreFull):
            await blobs.put(CONTENT)
        assert await list_names(blobs) == []
        assert drafts_in(tmp_path / "blobs") == []
        ref = await blobs.put(CONTENT)
        assert await blobs.verify(ref.hash) == ref

    asyncio.run(check())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("NOT PROVEN HERE: a full disk; mounting a small one needs root")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_refuses_and_serves_again_when_there_is_room(small_disk: Path) -> None:
    async def check() -> None:
        blobs = await FileBlobs.open(small_disk / "blobs", FakeClock(), SeededEntropy(1))
        kept = await blobs.put(CONTENT)
        with pytest.raises(StoreFull, match="free some space"):
            await blobs.put(CONTENT[1:])
        assert drafts_in(small_disk / "blobs") == []
        assert await list_names(blobs) == [kept.hash]
        assert await blobs.verify(kept.hash) == kept
        assert await blobs.delete(kept.hash) is True
        later = await blobs.put(CONTENT[1:])
        assert await blobs.verify(later.hash) == later

    asyncio.run(check())
